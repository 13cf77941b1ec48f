"""Exact sums of the signal study against closed forms, enumeration, published numbers and plain counting."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta as beta_distribution

from ada_lightning.analysis.metrics.subsets import chance_all_in_class, pass_at_k
from ada_lightning.core.stopping import FixedRule, QuotaRule
from research.benchmarks.simulation.pass_rates import MIXES, Mix, expectations
from research.studies.group_signal.figures import BETAS
from research.studies.group_signal.outcome import outcome, uniform_groups
from research.studies.group_signal.rates import CountedRates, KnownRates, MixRates
from research.studies.group_signal.rules import BALANCE, CURVES, FITTED, RULES, SIZES, WORKED_EXAMPLE

PASS_RATES = (0.01, 0.1, 0.3, 0.5, 0.8, 0.99)
UNEVEN = Mix(0.1, 0.2, 0.7, 1.9)


def test_the_worked_example_of_the_paper_is_43_percent():
    groups = uniform_groups(KnownRates([WORKED_EXAMPLE["pass_rate"]]), 16)
    assert groups.all_wrong_RN[0, WORKED_EXAMPLE["size"] - 1] == pytest.approx(0.9**8)
    assert round(0.9**8, 2) == 0.43
    assert round(0.9**16, 3) == 0.185  # what the paper's 19 % is near to


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 16])
def test_uniform_groups_equal_path_counting(size):
    for rates in (KnownRates(PASS_RATES), MixRates(UNEVEN), CountedRates([0, 3, 20], [20, 20, 20])):
        groups, counted = uniform_groups(rates, 16), outcome(FixedRule(size), rates)
        assert groups.all_right_RN[:, size - 1] == pytest.approx(counted.all_right_R, abs=1e-12)
        assert groups.all_wrong_RN[:, size - 1] == pytest.approx(counted.all_wrong_R, abs=1e-12)
        assert groups.balanced_RN[:, size - 1] == pytest.approx(counted.balanced_R, abs=1e-12)
        expected = counted.signal_by_row if size > 1 else 0.0
        assert groups.signal_by_size[:, size - 1] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("block", [1, 2, 4, 8])
@pytest.mark.parametrize("quotas", [(1, 1), (2, 2), (3, 1)])
def test_two_quotas_miss_what_a_uniform_group_of_n_max_misses(block, quotas):
    found = outcome(QuotaRule(*quotas, block, 32), KnownRates(PASS_RATES))
    p = np.array(PASS_RATES)
    assert found.all_right_R == pytest.approx(p**32, abs=1e-12)
    assert found.all_wrong_R == pytest.approx((1 - p) ** 32, abs=1e-12)


@pytest.mark.parametrize("block", [1, 4, 8])
def test_seq_pos_stops_at_a_first_block_that_is_all_right(block):
    found = outcome(QuotaRule(1, 0, block, 32), KnownRates(PASS_RATES))
    p = np.array(PASS_RATES)
    assert found.all_right_R == pytest.approx(p**block, abs=1e-12)
    assert found.all_wrong_R == pytest.approx((1 - p) ** 32, abs=1e-12)


@pytest.mark.parametrize(
    ("mix", "responses", "balance", "grpo_4", "grpo_16"),
    [
        ("mostly hard", 22.0, 0.28, 0.65, 0.39),
        ("even", 14.8, 0.06, 0.40, 0.12),
        ("extremes", 19.7, 0.23, 0.57, 0.31),
    ],
)
def test_shares_without_a_signal_of_the_reference_mixes(mix, responses, balance, grpo_4, grpo_16):
    """Published to two digits, from other code that put pass rates on a grid: hence one in the last digit."""
    rates = MixRates(BETAS[mix])
    found, groups = outcome(RULES["Seq-balance, blocks of 8"], rates), uniform_groups(rates, 16)
    assert found.responses == pytest.approx(responses, abs=0.15)
    assert 1 - found.signal == pytest.approx(balance, abs=0.011)
    assert 1 - groups.signal_at(4) == pytest.approx(grpo_4, abs=0.011)
    assert 1 - groups.signal_at(16) == pytest.approx(grpo_16, abs=0.011)


@pytest.mark.parametrize("model", list(CURVES))
def test_a_mix_reproduces_the_published_curves(model):
    """Within what the plot can be read to, about a point."""
    groups, columns = uniform_groups(MixRates(FITTED[model]), max(SIZES)), np.array(SIZES) - 1
    passed = 1 - groups.rates.weights_R @ groups.all_wrong_RN[:, columns]
    all_right = groups.rates.weights_R @ groups.all_right_RN[:, columns]
    assert passed == pytest.approx(CURVES[model]["pass"], abs=0.013)
    assert all_right == pytest.approx(CURVES[model]["all_right"], abs=0.013)


@pytest.mark.parametrize("name", ["step 200", "step 400", "wide"])
def test_a_mix_agrees_with_sums_over_its_quantiles(name):
    mix = MIXES[name]
    found = outcome(BALANCE, MixRates(mix))
    assert found.responses == pytest.approx(mix.expect(expectations(mix.grid(), 4, 32)["samples"]), rel=2e-3)


def test_moments_of_a_mix_equal_numerical_integration():
    positives, negatives = np.array([0, 3, 0, 2]), np.array([0, 0, 4, 5])
    moments = UNEVEN.never * (positives == 0) + UNEVEN.always * (negatives == 0)
    quantiles = beta_distribution.ppf((np.arange(200_000) + 0.5) / 200_000, UNEVEN.alpha, UNEVEN.beta)[:, None]
    between = np.mean(quantiles**positives * (1 - quantiles) ** negatives, axis=0)
    moments = moments + (1 - UNEVEN.never - UNEVEN.always) * between
    rates = MixRates(UNEVEN)
    exact = rates.weights_R @ rates.scaled_moments(positives, negatives) / 2.0 ** (positives + negatives)
    assert exact == pytest.approx(moments, rel=1e-4)


def test_counts_give_the_average_over_all_orders_of_the_responses():
    rule, drawn = QuotaRule(1, 1, 2, 6), (1, 1, 0, 0, 0, 0, 0)
    ends = []
    for order in itertools.permutations(drawn):
        right = wrong = 0
        while not rule.stops(right, wrong):
            is_right = order[right + wrong]
            right, wrong = right + is_right, wrong + 1 - is_right
        ends.append((right + wrong, right == 0, wrong == 0))
    expected = np.mean(ends, axis=0)
    found = outcome(rule, CountedRates([2], [7]))
    assert [found.responses_R[0], found.all_wrong_R[0], found.all_right_R[0]] == pytest.approx(expected, rel=1e-12)


def test_counts_agree_with_the_evaluation_s_own_estimates():
    groups = uniform_groups(CountedRates([5, 40], [40, 40]), 40)
    assert groups.all_right_RN[0] == pytest.approx(chance_all_in_class(5, 40), abs=1e-12)
    assert 1 - groups.all_wrong_RN[0] == pytest.approx(pass_at_k(5, 40), abs=1e-12)
    assert groups.all_right_RN[1] == pytest.approx(np.ones(40))
    assert not groups.all_wrong_RN[1].any()


@given(st.floats(0.02, 0.98), st.sampled_from(list(RULES)))
@settings(deadline=None, max_examples=20)
def test_counts_are_unbiased_for_every_rule(pass_rate, name):
    """The estimate from k of 40, averaged over the binomial distribution of k, is the exact value."""
    numbers = np.arange(41)
    chances = np.array([math.comb(40, k) * pass_rate**k * (1 - pass_rate) ** (40 - k) for k in numbers])
    counted, exact = (
        outcome(RULES[name], rates) for rates in (CountedRates(numbers, [40] * 41), KnownRates([pass_rate]))
    )
    for column in ("responses_R", "all_right_R", "all_wrong_R", "balanced_R"):
        assert chances @ getattr(counted, column) == pytest.approx(getattr(exact, column)[0], abs=1e-9)


def test_a_rule_that_draws_more_than_was_counted_is_refused():
    with pytest.raises(ValueError, match="draws 32 responses cannot be computed from 16 counted ones; draw more"):
        outcome(BALANCE, CountedRates([3], [16]))
    with pytest.raises(ValueError, match="one count per prompt is needed; got 1 of right, 2 of all"):
        CountedRates([3], [16, 16])
    with pytest.raises(ValueError, match="between 0 and all graded ones"):
        CountedRates([17], [16])
    with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
        KnownRates([1.2])
    with pytest.raises(ValueError, match="2 pass rates need as many weights that sum to 1"):
        KnownRates([0.1, 0.2], [0.5, 0.6])


def test_uniform_groups_between_whole_sizes_are_a_lot_between_two():
    groups = uniform_groups(KnownRates([0.5]), 4)
    assert groups.signal_at(2.5) == pytest.approx((0.5 + 0.75) / 2)
    assert groups.size_for(0.625) == pytest.approx(2.5)
    assert groups.size_for(0.9) == math.inf
    with pytest.raises(ValueError, match="groups of 5 responses are outside the computed sizes, 1 to 4"):
        groups.signal_at(5)
