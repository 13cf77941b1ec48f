from __future__ import annotations

import numpy as np
import pytest

from ada_lightning.core.records import ResponseGroup
from ada_lightning.core.stopping import FixedRule, QuotaRule
from ada_lightning.methods.advantages import ExactAdvantage, LeaveOneOutAdvantage
from ada_lightning.methods.objectives import LinearObjective, LogObjective
from ada_lightning.methods.selection import AllSelection, BalancedSelection
from tests.builders import assigned, make_pool

BALANCE = QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=32)
LOG = ExactAdvantage(objective=LogObjective())


def group_of(rewards, rule=BALANCE, selection=None):
    pool = make_pool(rewards)
    pool.rule = rule
    return ResponseGroup(pool, (selection or BalancedSelection(group_size=4)).select(pool))


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0], [9 / 22, 9 / 22, -9 / 22, -9 / 22]),  # c = 9/11, 2 kept of each
        ([0.0] * 31 + [1.0], [31 / 32, *[-31 / 96] * 3]),  # c = 31/32; one positive and three negatives kept
        ([1.0], [0.0]),  # nothing is pulled where a class is missing
        ([0.0] * 4, [0.0] * 4),
    ],
)
def test_each_class_shares_the_coefficient(rewards, expected):
    assert assigned(LOG, group_of(rewards)) == pytest.approx(np.array(expected))


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


def test_exact_looks_at_the_threshold_alone():
    """Above 0.7 or not: amount and sign of a reward change nothing."""
    of_any, of_binary = (
        assigned(LOG, group_of(rewards, FixedRule(4))) for rewards in ([5.0, -1.0, 0.4, 0.8], [1.0, 0.0, 0.0, 1.0])
    )
    assert of_any == pytest.approx(of_binary)
