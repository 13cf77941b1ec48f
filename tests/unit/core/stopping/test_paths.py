from __future__ import annotations

import math
from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ada_lightning.core.stopping import CappedRule, FixedRule, PilotRule, QuotaRule
from ada_lightning.core.stopping.paths import end_probability, ends, path_sums, reach, unbiased_table
from ada_lightning.core.stopping.posterior import PosteriorRule
from ada_lightning.methods.objectives import LogObjective
from ada_lightning.methods.objectives.support import supported_terms
from ada_lightning.methods.published.dars import DarsSampler
from ada_lightning.methods.published.pilot_commit import PilotCommitSampler
from ada_lightning.methods.published.speed import SpeedSampler

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
DARS = DarsSampler(num_pilot=4, n_max=10, hardness_weighted=True, normalize_std=True, group_size=10).rule
SPEED = SpeedSampler(num_screen=3, num_continue=6, group_size=9).rule
COMMIT = PilotCommitSampler(num_pilot=5, num_commit=4, min_rate=0.3, max_rate=0.7, group_size=9).rule
PILOTS = [
    DARS,
    SPEED,
    COMMIT,
    PilotRule((9, 4, 6, 3)),  # totals that fall and rise, one of them the pilot's
    PilotRule((8, 8, 8)),
    DARS.capped(7),
    SPEED.capped(2),
    PilotRule((4, 1)),  # pilots of one: a wrong one goes on
    PilotRule((1, 4)),
    PilotRule((5, 3)),
    PilotRule((3, 5)),
]
"""Rules that remember how a prompt began."""
RATES = (0.1, 0.5, 0.8)


@cache
def every_walk(rule):
    """Each distinct sequence of outcomes that ends a prompt's sampling, response by response."""
    walks, open_ones = set(), [()]
    for outcomes in open_ones:  # grows while it is walked through
        if rule.has_ended(outcomes):
            walks.add(outcomes)
        else:
            open_ones += [(*outcomes, True), (*outcomes, False)]
    return walks


def probability(outcomes, rate):
    return math.prod(rate if outcome else 1 - rate for outcome in outcomes)


def counts(outcomes):
    return sum(outcomes), len(outcomes) - sum(outcomes)


@pytest.mark.parametrize("rule", [*RULES, *PILOTS], ids=repr)
def test_end_probabilities_equal_an_enumeration_of_all_sequences(rule):
    for rate in RATES:
        brute = Counter()
        for outcomes in every_walk(rule):
            brute[counts(outcomes)] += probability(outcomes, rate)
        assert sum(brute.values()) == pytest.approx(1.0, rel=1e-12)
        assert set(brute) == set(ends(rule))
        for end, chance in brute.items():
            assert end_probability(rule, end, rate) == pytest.approx(chance, rel=1e-12)


@pytest.mark.parametrize("rule", [*RULES, *PILOTS], ids=repr)
def test_estimates_equal_the_conditional_frequency_of_the_early_event(rule):
    """Rao-Blackwell by brute force, for sources inside a pilot and beyond it: j wrong ones, then a right one."""
    longest_run = max((j for i, j in supported_terms(LogObjective(), rule) if i == 1), default=0)
    for run in range(longest_run + 1):
        table = unbiased_table(rule, {(1, run): 1.0})
        begins, total = Counter(), Counter()
        for outcomes in every_walk(rule):
            total[counts(outcomes)] += 1
            begins[counts(outcomes)] += outcomes[: run + 1] == (False,) * run + (True,)
        for end, number in total.items():
            assert table[end] == pytest.approx(begins[end] / number, rel=1e-12), (run, end)


@given(st.floats(0.01, 0.99))
def test_probabilities_of_all_ends_add_up(pass_rate):
    assert sum(end_probability(BALANCE, end, pass_rate) for end in ends(BALANCE)) == pytest.approx(1.0, rel=1e-12)


OFFICIAL = QuotaRule(2, 2, 8, 32)
OFFICIAL_POS = QuotaRule(1, 0, 8, 32)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (BALANCE, {0.02: 30.7, 0.05: 26.4, 0.1: 19.4, 0.2: 11.5, 0.5: 6.8, 0.8: 11.5, 0.95: 26.4}),
        (OFFICIAL, {0.1: 20.96, 0.2: 13.42, 0.3: 10.28, 0.5: 8.57}),
        (OFFICIAL_POS, {0.1: 13.56, 0.5: 8.03}),
    ],
)
def test_expected_responses_are_those_of_the_reference(rule, expected):
    """Its table of balance, with one decimal, and its section 7, blocks of 8, with two."""
    for pass_rate, number in expected.items():
        mean = sum(end_probability(rule, end, pass_rate) * sum(end) for end in ends(rule))
        assert round(mean, 1 if rule == BALANCE else 2) == number


@pytest.mark.parametrize(("pass_rate", "bias"), [(0.1, 0.0321), (0.2, 0.0377), (0.3, 0.0278), (0.5, 0.0)])
def test_the_pool_mean_is_biased_and_the_path_count_is_not(pass_rate, bias):
    rule = OFFICIAL
    table = unbiased_table(rule, {(1, 0): 1.0})
    by_end = {end: end_probability(rule, end, pass_rate) for end in ends(rule)}
    pool_mean = sum(chance * end[0] / sum(end) for end, chance in by_end.items())
    assert round(pool_mean - pass_rate, 4) == bias
    assert sum(chance * table[end] for end, chance in by_end.items()) == pytest.approx(pass_rate, rel=1e-12)


def test_the_path_count_varies_less_than_the_first_round():
    rule, pass_rate = OFFICIAL, 0.2
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
