"""What estimators for rewards of 0 and 1 do with others: they say so, or look at the threshold alone."""

from __future__ import annotations

import numpy as np
import pytest

from ada_lightning.core.records import KeptResponse, ResponseGroup
from ada_lightning.core.stopping import FixedRule
from ada_lightning.methods.advantages import ExactAdvantage, PoolMeanAdvantage, StratifiedAdvantage
from ada_lightning.methods.objectives import LinearObjective
from ada_lightning.methods.pass_rates import (
    FirstRoundRate,
    LeaveOneOutRate,
    PathCountingRate,
    PoolMeanRate,
    PosteriorRate,
)
from ada_lightning.methods.selection import AllSelection
from tests.builders import assigned, make_group, make_pool, make_response

STRATIFIED = StratifiedAdvantage(objective=LinearObjective(), pass_rate=PoolMeanRate())


def test_exact_looks_at_the_threshold_alone():
    """Above 0.7 or not: amount and sign of a reward change nothing."""

    def advantages(rewards):
        pool = make_pool(rewards)
        pool.rule = FixedRule(4)
        group = ResponseGroup(pool, AllSelection().select(pool))
        return assigned(ExactAdvantage(objective=LinearObjective()), group)

    assert advantages([5.0, -1.0, 0.4, 0.8]) == pytest.approx(advantages([1.0, 0.0, 0.0, 1.0]))


@pytest.mark.parametrize("rewards", [[1.0, -1.0], [1.0, 0.5], [2.0, 0.0]])
def test_stratified_refuses_rewards_other_than_zero_and_one(rewards):
    with pytest.raises(ValueError, match=r"rewards of 0 and 1.*advantage=weighted_leave_one_out"):
        assigned(STRATIFIED, make_group(rewards))


def test_stratified_finds_such_a_reward_among_those_not_kept():
    pool = make_pool([1.0, 0.0, -1.0])
    kept = tuple(KeptResponse(response, 1.0) for response in pool.responses[:2])
    with pytest.raises(ValueError, match="a pool holds a reward of -1"):
        assigned(STRATIFIED, ResponseGroup(pool, kept))


def test_stratified_takes_zero_and_one():
    assert assigned(STRATIFIED, make_group([1.0, 0.0])).tolist() == [0.25, -0.25]


def test_no_power_is_taken_of_a_negative_mean():
    group = make_group([-1.0, 0.0])
    assert assigned(PoolMeanAdvantage(), group).tolist() == [-0.5, 0.5]
    with pytest.raises(ValueError, match=r"weight_power = 1.* which is -0.5 .*use advantage.weight_power=0"):
        assigned(PoolMeanAdvantage(weight_power=1.0), group)
    with pytest.raises(ValueError, match="which is 0 in a pool whose rewards differ"):
        assigned(PoolMeanAdvantage(weight_power=1.0), make_group([1.0, -1.0]))
    assert assigned(PoolMeanAdvantage(weight_power=1.0), make_group([0.0, 0.0])).tolist() == [0.0, 0.0]
    posterior = PoolMeanAdvantage(weight_power=1.0, pass_rate=PosteriorRate())
    assert assigned(posterior, make_group([0.0, 0.0])) == pytest.approx(np.array([-1.0, -1.0]))


def late_positive():
    """A first round all wrong, then one of two right."""
    pool = make_pool([0.0, 0.0])
    pool.add(make_response(2, 1.0, round_index=1))
    pool.add(make_response(3, 0.0, round_index=1))
    return ResponseGroup(pool, AllSelection().select(pool))


@pytest.mark.parametrize(("power", "limit", "weight"), [(1.0, 8.0, 8.0), (0.5, 4.0, 4.0), (0.1, 1e3, 1e6**0.1)])
def test_a_rate_of_0_in_a_pool_with_a_positive_gets_the_largest_weight(power, limit, weight):
    """The rewards are in order: what ends the run elsewhere is a rate that negative rewards have made of no use."""
    advantage = PoolMeanAdvantage(weight_power=power, max_weight=limit, pass_rate=FirstRoundRate())
    assert assigned(advantage, late_positive()) == pytest.approx(np.array([0.0, 0.0, weight, 0.0]))


def test_a_first_round_below_0_is_refused_all_the_same():
    pool = make_pool([-1.0, 0.0])
    pool.add(make_response(2, 4.0, round_index=1))
    group = ResponseGroup(pool, AllSelection().select(pool))
    with pytest.raises(ValueError, match=r"which is -0\.5 in a pool whose rewards differ"):
        assigned(PoolMeanAdvantage(weight_power=1.0, max_weight=8.0, pass_rate=FirstRoundRate()), group)


@pytest.mark.parametrize("rate", [FirstRoundRate(), PathCountingRate(), LeaveOneOutRate()])
def test_a_weight_that_may_have_no_bound_is_refused_before_a_run(rate):
    with pytest.raises(ValueError, match=rf"power of {type(rate).__name__}, .*; set advantage\.max_weight"):
        PoolMeanAdvantage(weight_power=1.0, pass_rate=rate)
    PoolMeanAdvantage(weight_power=0.0, pass_rate=rate)
    PoolMeanAdvantage(weight_power=1.0, max_weight=32.0, pass_rate=rate)
