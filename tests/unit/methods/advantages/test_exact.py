from __future__ import annotations

import numpy as np
import pytest

from ada_lightning.core.records import ResponseGroup
from ada_lightning.core.stopping import FixedRule, QuotaRule
from ada_lightning.methods.advantages import (
    ExactAdvantage,
    LeaveOneOutAdvantage,
    PoolMeanAdvantage,
    StratifiedAdvantage,
)
from ada_lightning.methods.objectives import LinearObjective, LogObjective
from ada_lightning.methods.pass_rates import FirstRoundRate, PoolMeanRate
from ada_lightning.methods.selection import AllSelection, BalancedSelection
from tests.builders import assigned, make_group, make_pool

BALANCE = QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=32)
LOG = ExactAdvantage(objective=LogObjective())


def group_of(rewards, rule=BALANCE, selection=None):
    pool = make_pool(rewards)
    pool.rule = rule
    return ResponseGroup(pool, (selection or BalancedSelection(group_size=4)).select(pool))


def test_each_class_shares_the_coefficient():
    """2 positives and 6 negatives: c = 9/11 for log (reference), 2 kept of each."""
    advantages_B = assigned(LOG, group_of([1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]))
    assert advantages_B == pytest.approx(np.array([9 / 22, 9 / 22, -9 / 22, -9 / 22]))


def test_the_kept_numbers_of_each_class_do_not_change_its_sum():
    """1 positive and 31 negatives: c = 31/32; one positive and three negatives kept."""
    advantages_B = assigned(LOG, group_of([0.0] * 31 + [1.0]))
    assert advantages_B == pytest.approx(np.array([31 / 32] + [-31 / 96] * 3))


def test_a_fixed_group_gives_the_published_rules_without_adaptive_stopping():
    """Everything kept, times N: linear is RLOO, log is MaxRL's (r - mean) / mean."""
    group = group_of([1.0, 0.0, 1.0, 0.0, 0.0], FixedRule(5), AllSelection())
    linear = 5 * assigned(ExactAdvantage(objective=LinearObjective()), group)
    assert linear == pytest.approx(assigned(LeaveOneOutAdvantage(), group))
    assert 5 * assigned(LOG, group) == pytest.approx((np.array([1.0, 0.0, 1.0, 0.0, 0.0]) - 0.4) / 0.4)


def test_groups_of_different_rules_are_looked_up_in_their_own_tables():
    later = [1.0, 1.0] + [0.0] * 6
    groups = [group_of(later), group_of(later, FixedRule(8)), group_of([0.0] * 31 + [1.0])]
    together = assigned(LOG, *groups)
    assert together == pytest.approx(np.concatenate([assigned(LOG, group) for group in groups]))
    assert float(together[4]) == pytest.approx(6 / 8 / 2)  # log with a fixed group: Q / N


def test_advantages_are_bounded_by_the_kept_of_their_class():
    for positives, negatives in ((1, 31), (2, 30), (31, 1), (2, 2)):
        group = group_of([1.0] * positives + [0.0] * negatives)
        kept = [one.response.is_positive for one in group.kept]
        for objective in (LinearObjective(), LogObjective()):
            advantages = assigned(ExactAdvantage(objective=objective), group).tolist()
            for is_positive, advantage in zip(kept, advantages, strict=True):
                assert 0 < (advantage if is_positive else -advantage) <= 1 / kept.count(is_positive)


def test_a_pool_that_no_rule_of_counts_ended_is_refused():
    with pytest.raises(ValueError, match="paths cannot be counted; use advantage=stratified"):
        assigned(LOG, group_of([1.0, 0.0], rule=None))


def test_stratified_is_the_plug_in():
    """Pool mean 1/4: c = q = 3/4 for log. First round 1/2 (the builder puts all in round 0, so the same here)."""
    group = group_of([1.0, 1.0] + [0.0] * 6)
    advantage = StratifiedAdvantage(objective=LogObjective(), pass_rate=PoolMeanRate())
    assert assigned(advantage, group) == pytest.approx(np.array([3 / 8, 3 / 8, -3 / 8, -3 / 8]))


@pytest.mark.parametrize("rewards", [[0.0] * 4, [1.0] * 4, [0.0]])
def test_nothing_is_pulled_where_a_class_is_missing(rewards):
    group = group_of(rewards)
    for advantage in (LOG, StratifiedAdvantage(objective=LogObjective(), pass_rate=FirstRoundRate())):
        assert assigned(advantage, group) == pytest.approx(np.zeros(len(rewards)))


@pytest.mark.parametrize(
    ("power", "limit", "factor"), [(0.0, float("inf"), 1), (1.0, float("inf"), 4), (0.5, 1.5, 1.5)]
)
def test_the_explicit_weight_of_the_official_rule(power, limit, factor):
    """Pool mean 1/4."""
    group = group_of([1.0, 1.0] + [0.0] * 6)
    plain = assigned(PoolMeanAdvantage(), group)
    weighted = assigned(PoolMeanAdvantage(weight_power=power, max_weight=limit), group)
    assert weighted == pytest.approx(factor * plain)


def test_impossible_weights_are_refused_together():
    with pytest.raises(ValueError, match=r"weight_power must not be negative; got -1.*max_weight must be at least 1"):
        PoolMeanAdvantage(weight_power=-1, max_weight=0.5)


def test_leave_one_out_by_hand():
    """2 of 4: a right one is compared with 1/3, a wrong one with 2/3; a group of one with nothing."""
    assert assigned(LeaveOneOutAdvantage(), make_group([1.0, 1.0, 0.0, 0.0])) == pytest.approx(
        np.array([2 / 3, 2 / 3, -2 / 3, -2 / 3])
    )
    assert assigned(LeaveOneOutAdvantage(), make_group([1.0])) == pytest.approx(np.zeros(1))
