"""What other rules would have drawn, against every order of a group's responses."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from ada_lightning.audit.pass_rates import GRID, Mixture, fit_mixture, raw_shares
from ada_lightning.audit.rules import CANDIDATES, candidates, outcome
from ada_lightning.core.stopping import FixedRule, PilotRule, QuotaRule

RULES = (
    *(candidate.rule for candidate in CANDIDATES if candidate.rule.n_max <= 8),
    QuotaRule(1, 2, 3, 7),
    PilotRule((2, 5, 7)),
)
MIXTURE = Mixture(np.where(np.isin(np.arange(len(GRID)), [30, 70]), 0.5, 0.0))


def orders(num_positive, num_negative):
    total = num_positive + num_negative
    for places in combinations(range(total), num_positive):
        yield [index in places for index in range(total)]


def drawn(rule, outcomes):
    """What the rule takes of responses that come in this order."""
    taken = 0
    while taken < len(outcomes) and not rule.has_ended(outcomes[:taken]):
        taken += 1
    positives = sum(outcomes[:taken])
    both = 0 < positives < taken
    return np.array([positives, taken - positives, both, taken * both, positives * (taken - positives) / taken], float)


def summed(found):
    return np.array([found.positives, found.negatives, found.signal, found.rows, found.comparisons])


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("num_positive", [0, 1, 3, 8])
def test_an_exact_outcome_is_the_mean_over_all_orders(rule, num_positive):
    every = [drawn(rule, order) for order in orders(num_positive, 8 - num_positive)]
    found = outcome(rule, num_positive, 8 - num_positive, MIXTURE)
    assert summed(found) == pytest.approx(np.mean(every, axis=0), abs=1e-12)
    assert (found.responses_beyond, found.signal_beyond) == (0.0, 0.0)


@pytest.mark.parametrize("rule", [FixedRule(7), QuotaRule(1, 1, 2, 7), QuotaRule(2, 2, 4, 8)], ids=str)
@pytest.mark.parametrize("num_positive", [0, 1, 4])
def test_past_the_log_a_rule_goes_on_with_what_the_counts_leave_of_the_mixture(rule, num_positive):
    posterior = MIXTURE.posterior(num_positive, 4 - num_positive)
    total, beyond = np.zeros(5), 0.0
    every = list(orders(num_positive, 4 - num_positive))
    for order in every:
        for tail in product([True, False], repeat=4):
            chance = float(posterior @ (GRID ** sum(tail) * (1 - GRID) ** (4 - sum(tail)))) / len(every)
            taken = drawn(rule, [*order, *tail])
            total += chance * taken
            beyond += chance * max(0.0, taken[0] + taken[1] - 4)
    found = outcome(rule, num_positive, 4 - num_positive, MIXTURE)
    assert summed(found) == pytest.approx(total, abs=1e-12)
    assert found.responses_beyond == pytest.approx(beyond, abs=1e-12)
    assert (found.signal_beyond == 0.0) == (num_positive == 1)  # its four have both classes


def test_a_rule_that_remembers_is_not_extrapolated():
    assert all(not candidate.rule.branches() for candidate in candidates(4, 4) if candidate.rule.n_max > 4)
    with pytest.raises(ValueError, match=r"draws more than the 4 responses"):
        outcome(PilotRule((4, 8, 8, 8, 4)), 0, 4, MIXTURE)


def test_the_fitted_distribution_takes_out_what_chance_adds():
    counts = np.random.default_rng(0).binomial(8, 0.05, size=2000)
    pairs = [(int(count), 8 - int(count)) for count in counts]
    assert raw_shares(pairs)[0] > 0.6  # no right response of 8: 0.95^8 = 0.66
    assert fit_mixture(pairs).shares()[1] > 0.9  # [0.02, 0.1)


def test_the_signal_of_a_tenth_of_the_prompts():
    weights = np.zeros(len(GRID))
    weights[[0, 60]] = 0.8, 0.2  # p = 0 and p = 0.5
    assert Mixture(weights).signal_share(0.1) == pytest.approx(0.5)
