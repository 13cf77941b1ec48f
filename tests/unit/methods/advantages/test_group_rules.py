"""Rules of one group by hand: GRPO, Dr. GRPO, RLOO, MaxRL, the official rule and its weight, estimated pass rates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ada_lightning.analysis.statement.inexact import expected_weights
from ada_lightning.core.records import Belief, KeptResponse, ResponseGroup
from ada_lightning.core.stopping import FixedRule, QuotaRule
from ada_lightning.methods.advantages import (
    ExactAdvantage,
    GroupNormalizedAdvantage,
    LeaveOneOutAdvantage,
    PoolMeanAdvantage,
    StratifiedAdvantage,
)
from ada_lightning.methods.objectives import LinearObjective, LogObjective
from ada_lightning.methods.pass_rates import (
    FirstRoundRate,
    LeaveOneOutRate,
    PathCountingRate,
    PoolMeanRate,
    PosteriorRate,
)
from ada_lightning.methods.published.max_rl import MaxRlAdvantage
from ada_lightning.methods.selection import AllSelection, BalancedSelection
from tests.builders import assigned, make_group, make_pool


def selected(rewards):
    """Four of a pool, half of each class."""
    pool = make_pool(rewards)
    return ResponseGroup(pool, BalancedSelection(group_size=4).select(pool))


QUARTER = selected([1.0, 1.0] + [0.0] * 6)
"""2 positives and 6 negatives drawn, 2 and 2 kept."""


@pytest.mark.parametrize(
    ("rule", "group", "expected"),
    [
        # 2 of 8: mean 1/4, whatever was kept; deviation of two ones and six zeros: sqrt((2 * .75^2 + 6 * .25^2) / 7)
        (PoolMeanAdvantage(), QUARTER, np.array([0.75, 0.75, -0.25, -0.25])),
        (PoolMeanAdvantage(normalize_std=True), QUARTER, np.array([0.75, 0.75, -0.25, -0.25]) / (0.46291005 + 1e-6)),
        # times p^-1 = 4, or p^-1/2 = 2, up to the limit
        (PoolMeanAdvantage(weight_power=1.0), QUARTER, np.array([3.0, 3.0, -1.0, -1.0])),
        (PoolMeanAdvantage(weight_power=0.5, max_weight=1.5), QUARTER, 1.5 * np.array([0.75, 0.75, -0.25, -0.25])),
        # 2 of 4 kept: mean 1/2, deviation sqrt(4 * .25 / 3)
        (GroupNormalizedAdvantage(normalize_std=False), QUARTER, np.array([0.5, 0.5, -0.5, -0.5])),
        (GroupNormalizedAdvantage(), QUARTER, np.array([0.5, 0.5, -0.5, -0.5]) / (0.57735027 + 1e-6)),
        # a right one is compared with 1/3, a wrong one with 2/3; a group of one with nothing
        (LeaveOneOutAdvantage(), QUARTER, np.array([2, 2, -2, -2]) / 3),
        (LeaveOneOutAdvantage(), make_group([1.0]), np.zeros(1)),
        # (1 - 1/4) / (1/4) = 3 and -1
        (MaxRlAdvantage(), make_group([1.0, 0.0, 0.0, 0.0]), np.array([3.0, -1.0, -1.0, -1.0])),
        # the plug-in at the pool's mean: c = q = 3/4 for log
        (
            StratifiedAdvantage(objective=LogObjective(), pass_rate=PoolMeanRate()),
            QUARTER,
            np.array([3, 3, -3, -3]) / 8,
        ),
    ],
)
def test_by_hand(rule, group, expected):
    assert assigned(rule, group) == pytest.approx(expected, rel=1e-7)


def test_large_rewards_with_a_small_spread_keep_their_deviation():
    """Sums of squares would cancel; 1000.1 - 1000 is 0.1 to twelve digits."""
    advantages_B = assigned(GroupNormalizedAdvantage(), make_group([1000.0, 1000.1] * 2))
    assert advantages_B == pytest.approx(np.array([-1.0, 1.0] * 2) * math.sqrt(3) / 2, rel=1e-4)


@pytest.mark.parametrize("rewards", [[0.0, 0.0], [1.0, 1.0], [1.0], [0.0], [-1.0, 0.0], [-1.0, 1.0]])
def test_max_rl_has_nothing_without_a_positive_mean(rewards):
    assert assigned(MaxRlAdvantage(), make_group(rewards)).tolist() == [0.0] * len(rewards)


@pytest.mark.parametrize("size", [2, 4, 9])
def test_max_rl_follows_log_p_as_far_as_the_group_can_see(size):
    """Mean over the group of A times score: (1 - (1 - p)^(n - 1)) / p, the sum n times that."""
    rates = [0.02, 0.3, 0.9]
    expected = [size * (1 - (1 - rate) ** (size - 1)) / rate for rate in rates]
    assert expected_weights(MaxRlAdvantage(), AllSelection(), FixedRule(size), rates) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (PoolMeanRate(), 2 / 8),
        (FirstRoundRate(), 1 / 4),
        (PosteriorRate(), (1 + 2) / (1 + 3 + 8)),
        (PathCountingRate(), 1 - 9 / 11),  # c of the log objective is 1 minus this; 9/11 is known
        (LeaveOneOutRate(), [1 / 7, 2 / 7]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_estimated_pass_rates_by_hand(rate, expected):
    """1 of 4 right in the first round, 1 of 4 in the second; stopped by balance 2/2."""
    pool = make_pool([1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0], block=4)
    pool.belief = Belief(1.0, 3.0)
    pool.rule = QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=32)
    assert rate(ResponseGroup(pool, tuple(KeptResponse(r, 2.0) for r in pool.responses[:2]))) == pytest.approx(expected)


LINEAR = LinearObjective()
STRATIFIED = StratifiedAdvantage(objective=LINEAR, pass_rate=PoolMeanRate())


@pytest.mark.parametrize("rule", [ExactAdvantage(objective=LINEAR), StratifiedAdvantage(
    objective=LINEAR, pass_rate=PathCountingRate())])  # fmt: skip
def test_a_pool_that_no_rule_of_counts_ended_is_refused_by_what_counts_paths(rule):
    with pytest.raises(
        ValueError, match=r"ended by more than its counts .* paths cannot be counted; use advantage=str"
    ):
        assigned(rule, make_group([1.0, 0.0]))


@pytest.mark.parametrize("rewards", [[1.0, -1.0], [1.0, 0.5], [2.0, 0.0]])
def test_stratified_refuses_rewards_other_than_zero_and_one(rewards):
    with pytest.raises(ValueError, match=r"rewards of 0 and 1.*advantage=weighted_leave_one_out"):
        assigned(STRATIFIED, make_group(rewards))
    assert assigned(STRATIFIED, make_group([1.0, 0.0])).tolist() == [0.25, -0.25]


def test_stratified_finds_such_a_reward_among_those_not_kept():
    pool = make_pool([1.0, 0.0, -1.0])
    with pytest.raises(ValueError, match="a pool holds a reward of -1"):
        assigned(STRATIFIED, ResponseGroup(pool, tuple(KeptResponse(response, 1.0) for response in pool.responses[:2])))


@pytest.mark.parametrize(
    ("rewards", "options", "message"),
    [
        ([-1.0, 0.0], {}, r"weight_power = 1.* which is -0.5 .*Use advantage.weight_power=0"),
        ([1.0, -1.0], {}, "which is 0 in a pool whose rewards differ"),
        # a first round below 0, although the pool's mean is above it
        ([-1.0, 0.0, 4.0], {"max_weight": 8.0, "pass_rate": FirstRoundRate()}, r"which is -0\.5 in a pool whose rew"),
    ],
)
def test_no_power_is_taken_of_a_rate_that_negative_rewards_have_made(rewards, options, message):
    pool = make_pool(rewards, block=2)
    with pytest.raises(ValueError, match=message):
        assigned(PoolMeanAdvantage(weight_power=1.0, **options), ResponseGroup(pool, AllSelection().select(pool)))


def test_without_a_power_or_without_a_difference_negative_rewards_are_rewards():
    assert assigned(PoolMeanAdvantage(), make_group([-1.0, 0.0])).tolist() == [-0.5, 0.5]
    assert assigned(PoolMeanAdvantage(weight_power=1.0), make_group([0.0, 0.0])).tolist() == [0.0, 0.0]
    posterior = PoolMeanAdvantage(weight_power=1.0, pass_rate=PosteriorRate())
    assert assigned(posterior, make_group([0.0, 0.0])) == pytest.approx(np.array([-1.0, -1.0]))


@pytest.mark.parametrize(("power", "limit", "weight"), [(1.0, 8.0, 8.0), (0.5, 4.0, 4.0), (0.1, 1e3, 1e6**0.1)])
def test_a_rate_of_0_in_a_pool_with_a_positive_gets_the_largest_weight(power, limit, weight):
    """A first round all wrong, then one of two right: the rewards are in order, so nothing is refused."""
    pool = make_pool([0.0, 0.0, 1.0, 0.0], block=2)
    advantage = PoolMeanAdvantage(weight_power=power, max_weight=limit, pass_rate=FirstRoundRate())
    found = assigned(advantage, ResponseGroup(pool, AllSelection().select(pool)))
    assert found == pytest.approx(np.array([0.0, 0.0, weight, 0.0]))
