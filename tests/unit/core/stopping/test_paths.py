from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ada_lightning.core.stopping import CappedRule, FixedRule, QuotaRule
from ada_lightning.core.stopping.paths import end_probability, ends, path_sums, reach, unbiased_table
from ada_lightning.core.stopping.posterior import PosteriorRule

BALANCE = QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=32)
SMALL = QuotaRule(k_pos=1, k_neg=2, samples_per_round=3, n_max=9)
RULES = [
    SMALL,
    QuotaRule(k_pos=2, k_neg=0, samples_per_round=2, n_max=8),
    FixedRule(7),
    CappedRule(SMALL, 5),
    CappedRule(SMALL, 1),
    PosteriorRule(SMALL, alpha=0.5, beta=4.0, min_rate=0.15),
]


def walk(rule, outcomes):
    """Where a sequence of outcomes ends, response by response, and how many of it were used."""
    positives = negatives = 0
    while not rule.stops(positives, negatives):
        is_positive = outcomes[positives + negatives]
        positives, negatives = positives + is_positive, negatives + (not is_positive)
    return positives, negatives


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_end_probabilities_equal_an_enumeration_of_all_sequences(rule):
    for pass_rate in (0.1, 0.5, 0.8):
        brute = {}
        for outcomes in itertools.product((True, False), repeat=rule.n_max):
            probability = math.prod(pass_rate if outcome else 1 - pass_rate for outcome in outcomes)
            end = walk(rule, outcomes)
            brute[end] = brute.get(end, 0.0) + probability
        assert set(brute) == set(ends(rule))
        for end, probability in brute.items():
            assert end_probability(rule, end, pass_rate) == pytest.approx(probability, rel=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_estimates_equal_the_conditional_frequency_of_the_early_event(rule):
    """Rao-Blackwell by brute force: given the end, the share of sequences that start with a positive."""
    starts, totals = {}, {}
    for outcomes in itertools.product((True, False), repeat=rule.n_max):
        end = walk(rule, outcomes)
        weight = 0.5 ** sum(end)  # sequences that share the used prefix are counted 2^(n_max - N) times
        starts[end] = starts.get(end, 0.0) + weight * outcomes[0]
        totals[end] = totals.get(end, 0.0) + weight
    table = unbiased_table(rule, {(1, 0): 1.0})
    for end, total in totals.items():
        assert table[end] == pytest.approx(starts[end] / total, rel=1e-12)


@given(st.floats(0.01, 0.99), st.sampled_from([BALANCE, *RULES]))
@settings(deadline=None)
def test_probabilities_of_all_ends_add_up(pass_rate, rule):
    assert sum(end_probability(rule, end, pass_rate) for end in ends(rule)) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(
    ("pass_rate", "expected"),
    [(0.02, 30.7), (0.05, 26.4), (0.1, 19.4), (0.2, 11.5), (0.5, 6.8), (0.8, 11.5), (0.95, 26.4)],
)
def test_expected_responses_of_balance(pass_rate, expected):
    """Reference table, one decimal."""
    mean = sum(end_probability(BALANCE, end, pass_rate) * sum(end) for end in ends(BALANCE))
    assert round(mean, 1) == expected


@pytest.mark.parametrize(
    ("rule", "pass_rate", "expected"),
    [
        (QuotaRule(2, 2, 8, 32), 0.1, 20.96),
        (QuotaRule(2, 2, 8, 32), 0.2, 13.42),
        (QuotaRule(2, 2, 8, 32), 0.3, 10.28),
        (QuotaRule(2, 2, 8, 32), 0.5, 8.57),
        (QuotaRule(1, 0, 8, 32), 0.1, 13.56),
        (QuotaRule(1, 0, 8, 32), 0.5, 8.03),
    ],
)
def test_expected_responses_of_the_official_setting(rule, pass_rate, expected):
    """Reference section 7, blocks of 8, two decimals."""
    mean = sum(end_probability(rule, end, pass_rate) * sum(end) for end in ends(rule))
    assert round(mean, 2) == expected


@pytest.mark.parametrize(("pass_rate", "bias"), [(0.1, 0.0321), (0.2, 0.0377), (0.3, 0.0278), (0.5, 0.0)])
def test_the_pool_mean_is_biased_and_the_path_count_is_not(pass_rate, bias):
    rule = QuotaRule(2, 2, 8, 32)
    table = unbiased_table(rule, {(1, 0): 1.0})
    by_end = {end: end_probability(rule, end, pass_rate) for end in ends(rule)}
    pool_mean = sum(chance * end[0] / sum(end) for end, chance in by_end.items())
    assert round(pool_mean - pass_rate, 4) == bias
    assert sum(chance * table[end] for end, chance in by_end.items()) == pytest.approx(pass_rate, rel=1e-12)


def test_the_path_count_varies_less_than_the_first_round():
    rule, pass_rate = QuotaRule(2, 2, 8, 32), 0.2
    table = unbiased_table(rule, {(1, 0): 1.0})
    variance = sum(end_probability(rule, end, pass_rate) * (table[end] - pass_rate) ** 2 for end in ends(rule))
    assert variance < pass_rate * (1 - pass_rate) / 8


def test_a_source_on_a_stopping_point_ends_there():
    sums = path_sums(FixedRule(2), {(1, 1): 1.0})
    assert sums[1, 1] == 0.25
    assert np.count_nonzero(sums) == 1


def test_paths_are_finite_up_to_the_largest_rule_and_refused_beyond():
    rule = FixedRule(1000)
    assert end_probability(rule, (0, 1000), 1e-3) == pytest.approx(0.999**1000, rel=1e-9)
    assert reach(rule)[1000, 0] > 0
    with pytest.raises(ValueError, match="n_max = 1001 is more than path counting can handle; use at most 1000"):
        path_sums(FixedRule(1001), {(0, 0): 1.0})
