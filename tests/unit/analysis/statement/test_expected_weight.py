from __future__ import annotations

import pytest

from ada_lightning.analysis.statement.inexact import expected_weights
from ada_lightning.core.stopping import FixedRule, QuotaRule
from ada_lightning.methods.advantages import ExactAdvantage, GroupNormalizedAdvantage, PoolMeanAdvantage
from ada_lightning.methods.objectives import LinearObjective, LogObjective, PowerObjective
from ada_lightning.methods.objectives.support import supported_weight
from ada_lightning.methods.pass_rates import PosteriorRate
from ada_lightning.methods.published.cppo import LargestAdvantageSelection
from ada_lightning.methods.published.pods import MaxVarianceSelection
from ada_lightning.methods.selection import AllSelection, BalancedSelection, RarerClassSelection

RATES = [0.02, 0.1, 0.5, 0.9]


@pytest.mark.parametrize("objective", [LogObjective(), PowerObjective(0.5)])
@pytest.mark.parametrize("selection", [BalancedSelection(group_size=4), AllSelection()])
def test_exact_estimator_has_the_weight_that_the_rule_supports(objective, selection):
    rule = QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=32)
    expected = [supported_weight(objective, rule, rate) for rate in RATES]
    assert expected_weights(ExactAdvantage(objective=objective), selection, rule, RATES) == pytest.approx(
        expected, 1e-5
    )


def test_standardised_pair_by_hand():
    """Of two responses only a mixed pair counts: +-1/sqrt(2) each, with probability 2pq."""
    (weight,) = expected_weights(GroupNormalizedAdvantage(), AllSelection(), FixedRule(2), [0.1])
    assert weight == pytest.approx(2 * 0.1 * 0.9 * 0.5**0.5 * (1 / 0.1 + 1 / 0.9), rel=1e-5)


@pytest.mark.parametrize("size", [2, 4])
def test_a_baseline_near_its_prior_trains_pools_without_a_signal_too(size):
    """Of ``sum_i (r_i - (1 + sum r) / (n + 2)) score_i`` each response takes 1/(n + 2) of its own reward away."""
    advantage = PoolMeanAdvantage(pass_rate=PosteriorRate())
    found = expected_weights(advantage, AllSelection(), FixedRule(size), RATES)
    assert found == pytest.approx([size * (1 - 1 / (size + 2))] * 4, rel=1e-5)


@pytest.mark.parametrize(
    ("selection", "keeps_both"),
    [
        (BalancedSelection(group_size=4), True),
        (MaxVarianceSelection(group_size=4), True),
        (RarerClassSelection(max_per_class=2), True),
        (LargestAdvantageSelection(rate=0.75), False),
    ],
)
def test_the_exact_estimator_follows_its_objective_only_where_both_classes_are_kept(selection, keeps_both):
    """Two of eight kept by advantage are mostly the rarer class alone: ``config_selection`` refuses such a pair."""
    weights = expected_weights(ExactAdvantage(objective=LinearObjective()), selection, FixedRule(8), RATES)
    assert (weights == pytest.approx([1.0] * len(RATES))) == keeps_both
