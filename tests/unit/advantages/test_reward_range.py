"""What estimators for rewards of 0 and 1 do with others: they say so, or look at the threshold alone."""

from __future__ import annotations

import pytest
import torch

from ada_lightning.advantages import ExactAdvantage, PoolMeanAdvantage, StratifiedAdvantage
from ada_lightning.data.packing import group_microbatch
from ada_lightning.objectives import LinearObjective
from ada_lightning.pass_rates import PoolMeanRate
from ada_lightning.selection import AllSelection
from ada_lightning.stopping import FixedRule
from ada_lightning.types import KeptResponse, ResponseGroup
from tests.builders import make_group, make_pool

STRATIFIED = StratifiedAdvantage(objective=LinearObjective(), pass_rate=PoolMeanRate())


def test_exact_looks_at_the_threshold_alone():
    """Above 0.7 or not: amount and sign of a reward change nothing."""

    def advantages(rewards):
        pool = make_pool(rewards)
        pool.rule = FixedRule(4)
        group = ResponseGroup(pool, AllSelection().select(pool))
        return ExactAdvantage(objective=LinearObjective())(group_microbatch(group))

    torch.testing.assert_close(advantages([5.0, -1.0, 0.4, 0.8]), advantages([1.0, 0.0, 0.0, 1.0]))


@pytest.mark.parametrize("rewards", [[1.0, -1.0], [1.0, 0.5], [2.0, 0.0]])
def test_stratified_refuses_rewards_other_than_zero_and_one(rewards):
    with pytest.raises(ValueError, match=r"rewards of 0 and 1.*advantage=weighted_leave_one_out"):
        STRATIFIED(group_microbatch(make_group(rewards)))


def test_stratified_finds_such_a_reward_among_those_not_kept():
    pool = make_pool([1.0, 0.0, -1.0])
    kept = tuple(KeptResponse(response, 1.0) for response in pool.responses[:2])
    with pytest.raises(ValueError, match="a pool holds others"):
        STRATIFIED(group_microbatch(ResponseGroup(pool, kept)))


def test_stratified_takes_zero_and_one():
    assert STRATIFIED(group_microbatch(make_group([1.0, 0.0]))).tolist() == [0.25, -0.25]


def test_no_power_is_taken_of_a_negative_mean():
    microbatch = group_microbatch(make_group([-1.0, 0.0]))
    assert PoolMeanAdvantage()(microbatch).tolist() == [-0.5, 0.5]
    with pytest.raises(ValueError, match=r"weight_power = 1.* which is -0.5 .*use advantage.weight_power=0"):
        PoolMeanAdvantage(weight_power=1.0)(microbatch)
    with pytest.raises(ValueError, match="which is 0 in a pool whose rewards differ"):
        PoolMeanAdvantage(weight_power=1.0)(group_microbatch(make_group([1.0, -1.0])))
    assert PoolMeanAdvantage(weight_power=1.0)(group_microbatch(make_group([0.0, 0.0]))).tolist() == [0.0, 0.0]
