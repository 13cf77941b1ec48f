"""A rule that remembers its pilot, against all sequences of outcomes."""

from __future__ import annotations

import itertools
import math

import pytest

from ada_lightning.analysis.statement.expected_weight import expected_weights
from ada_lightning.core.stopping import CappedRule, FixedRule, PilotRule
from ada_lightning.core.stopping.paths import end_probability, ends, reach, unbiased_table
from ada_lightning.methods.advantages import ExactAdvantage
from ada_lightning.methods.objectives import LinearObjective, LogObjective
from ada_lightning.methods.objectives.support import coefficient_table, supported_terms, supported_weight
from ada_lightning.methods.sampling import DarsSampler, PilotCommitSampler, SpeedSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection

DARS = DarsSampler(num_pilot=4, n_max=10, hardness_weighted=True, normalize_std=True, group_size=10).rule
SPEED = SpeedSampler(num_screen=3, num_continue=6, group_size=9).rule
COMMIT = PilotCommitSampler(num_pilot=5, num_commit=4, min_rate=0.3, max_rate=0.7, group_size=9).rule
RULES = [
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
RATES = (0.1, 0.5, 0.8)


def walk(rule, outcomes):
    """How many of these outcomes are used, response by response."""
    used = 0
    while not rule.has_ended(outcomes[:used]):
        used += 1
    return used


def every_walk(rule):
    """Each distinct walk: its outcomes."""
    return {outcomes[: walk(rule, outcomes)] for outcomes in itertools.product((True, False), repeat=rule.n_max)}


def probability(outcomes, rate):
    return math.prod(rate if outcome else 1 - rate for outcome in outcomes)


def counts(outcomes):
    return sum(outcomes), len(outcomes) - sum(outcomes)


def test_the_totals_are_those_of_their_methods():
    # at 1/8, for none right, 2 sqrt(7/64) n >= 7 needs 11, cut off at 10; at 1/4, 2 sqrt(3/16) n >= 6 needs 7
    assert DARS.totals == (10, 7, 4, 4, 4)
    assert SPEED.totals == (3, 9, 9, 3)
    assert COMMIT.totals == (5, 5, 9, 9, 5, 5)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_end_probabilities_equal_an_enumeration_of_all_sequences(rule):
    walks = every_walk(rule)
    assert all(len(walk) == rule.totals[sum(walk[: rule.num_pilot])] for walk in walks)
    for rate in RATES:
        brute = {}
        for outcomes in walks:
            brute[counts(outcomes)] = brute.get(counts(outcomes), 0.0) + probability(outcomes, rate)
        assert sum(brute.values()) == pytest.approx(1.0, rel=1e-12)
        assert set(brute) == set(ends(rule))
        for end, chance in brute.items():
            assert end_probability(rule, end, rate) == pytest.approx(chance, rel=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("objective", [LinearObjective(), LogObjective()], ids=["linear", "log"])
def test_the_coefficient_is_unbiased_for_what_the_rule_supports(rule, objective):
    table = coefficient_table(objective, rule)
    assert table.min() >= 0
    assert table.max() <= 1 + 1e-12
    for rate in RATES:
        expected = sum(probability(outcomes, rate) * table[counts(outcomes)] for outcomes in every_walk(rule))
        assert expected == pytest.approx(rate * (1 - rate) * supported_weight(objective, rule, rate), rel=1e-12)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_the_coefficient_is_the_conditional_frequency_of_the_early_event(rule):
    """Rao-Blackwell by brute force, for sources inside the pilot and beyond it: j wrong ones, then a right one."""
    longest_run = max((j for i, j in supported_terms(LogObjective(), rule) if i == 1), default=0)
    for run in range(1, longest_run + 1):
        table = unbiased_table(rule, {(1, run): 1.0})
        begins, total = {}, {}
        for outcomes in every_walk(rule):
            end = counts(outcomes)
            total[end] = total.get(end, 0) + 1
            begins[end] = begins.get(end, 0) + (outcomes[: run + 1] == (False,) * run + (True,))
        for end, number in total.items():
            assert table[end] == pytest.approx(begins[end] / number, rel=1e-12), (run, end)


@pytest.mark.parametrize("rule", [DARS, SPEED, COMMIT], ids=repr)
@pytest.mark.parametrize("selection", [AllSelection(), BalancedSelection(group_size=4)], ids=["all", "balanced"])
def test_the_exact_update_follows_the_objective_under_each_rule(rule, selection):
    weights = expected_weights(ExactAdvantage(objective=LogObjective()), selection, rule, RATES)
    wanted = [supported_weight(LogObjective(), rule, rate) for rate in RATES]
    assert weights == pytest.approx(wanted, rel=1e-6)  # advantages are float32


def test_a_pilot_of_one_that_goes_on_where_it_was_wrong_supports_the_linear_objective():
    """Of the three that follow a wrong one, the share of right ones: whether the first of them is right."""
    rule = PilotCommitSampler(num_pilot=1, num_commit=3, min_rate=0, max_rate=0.5, group_size=4).rule
    table = coefficient_table(LinearObjective(), rule)
    assert [table[positives, 4 - positives] for positives in range(4)] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    weights = expected_weights(ExactAdvantage(objective=LinearObjective()), AllSelection(), rule, RATES)
    assert weights == pytest.approx([1.0] * len(RATES), rel=1e-6)


def test_the_pool_mean_is_biased_and_the_path_count_is_not():
    """DARS draws on where a pilot is low, so a low start is averaged away and a high one is kept."""
    rule = DarsSampler(num_pilot=8, n_max=32, hardness_weighted=False, normalize_std=True, group_size=32).rule
    table = unbiased_table(rule, {(1, 0): 1.0})
    chance = {end: end_probability(rule, end, 0.2) for end in ends(rule)}
    mean = sum(chance[end] * end[0] / sum(end) for end in chance)
    assert abs(mean - 0.2) > 0.01
    assert sum(chance[end] * table[end] for end in chance) == pytest.approx(0.2, rel=1e-12)


def test_equal_totals_are_a_fixed_group():
    for end in ends(FixedRule(8)):
        assert reach(PilotRule((8, 8, 8)))[end] == pytest.approx(reach(FixedRule(8))[end])


def test_the_same_counts_end_one_pilot_and_not_another():
    rule = PilotRule((9, 4, 6, 3))
    assert rule.has_ended([True, False, False, False])
    assert not rule.has_ended([False, False, False, True])
    assert rule.stops(1, 3)  # some order of them ends


def test_a_screen_says_whether_the_prompt_went_on():
    assert SPEED.is_resolved(1, 8)
    assert not SPEED.is_resolved(0, 3)
    assert not SPEED.capped(2).is_resolved(1, 1)
    assert DARS.is_resolved(4, 0)


def test_a_cap_inside_the_pilot_is_a_fixed_group():
    assert DARS.capped(2).totals == (2, 2, 2)
    assert DARS.capped(0).totals == (0,)
    assert DARS.capped(7).totals == tuple(min(total, 7) for total in DARS.totals)


def test_rules_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"pilot of 2 responses needs a total of at least that .* got \(4, 1, 4\)"):
        PilotRule((4, 1, 4))
    with pytest.raises(ValueError, match=r"PilotRule remembers how a prompt began; use its capped\(5\)"):
        CappedRule(DARS, 5)
