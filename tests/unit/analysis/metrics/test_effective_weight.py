from __future__ import annotations

import pytest

from ada_lightning.analysis.metrics.rollout import effective_weights
from ada_lightning.core.records import ResponseGroup
from ada_lightning.core.stopping import QuotaRule
from ada_lightning.methods.advantages import ExactAdvantage, PoolMeanAdvantage
from ada_lightning.methods.objectives import LogObjective
from ada_lightning.methods.selection import BalancedSelection
from tests.builders import make_pool, weighed


def group_of(num_positive, num_negative):
    pool = make_pool([1.0] * num_positive + [0.0] * num_negative)
    pool.rule = QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=32)
    return ResponseGroup(pool, BalancedSelection(group_size=4).select(pool))


def weights(advantage, groups):
    return effective_weights(weighed(advantage, groups))


def test_the_factor_on_grad_p_by_hand():
    """2 of 8: c = 9/11, so c / p + c / q = (9/11) / (3/16); 2 of 4: c = 1/2, so 2."""
    found = weights(ExactAdvantage(objective=LogObjective()), [group_of(2, 6), group_of(2, 2)])
    assert found == {
        "weight/pass_rate_from_0.25": pytest.approx(9 / 11 * 16 / 3),
        "weight/pass_rate_from_0.5": pytest.approx(2.0),
    }


def test_a_bin_holds_the_mean_over_its_prompts():
    """The official rule, summed over four kept: 2 (q/p + p/q); 1 of 32 keeps 1 + 3: q/p + 3 p/q."""
    found = weights(PoolMeanAdvantage(), [group_of(2, 30), group_of(1, 31)])
    first = 2 * (30 / 2 + 2 / 30)
    second = 31 / 1 + 3 * 1 / 31
    assert found == {"weight/pass_rate_from_0": pytest.approx((first + second) / 2)}


def test_prompts_without_both_classes_do_not_count():
    assert weights(PoolMeanAdvantage(), [group_of(4, 0), group_of(0, 32)]) == {}
