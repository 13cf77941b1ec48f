"""A rule that remembers its pilot; its paths are those of test_paths.py."""

from __future__ import annotations

import pytest

from ada_lightning.analysis.statement.inexact import expected_weights
from ada_lightning.core.stopping import CappedRule, FixedRule, PilotRule
from ada_lightning.core.stopping.paths import end_probability, ends, reach, unbiased_table
from ada_lightning.methods.advantages import ExactAdvantage
from ada_lightning.methods.objectives import LinearObjective, LogObjective
from ada_lightning.methods.objectives.support import coefficient_table, supported_weight
from ada_lightning.methods.published.dars import DarsSampler
from ada_lightning.methods.published.pilot_commit import PilotCommitSampler
from ada_lightning.methods.selection import AllSelection
from tests.unit.core.stopping.test_paths import COMMIT, DARS, PILOTS, RATES, SPEED, counts, every_walk, probability


def test_the_totals_are_those_of_their_methods():
    # at 1/8, for none right, 2 sqrt(7/64) n >= 7 needs 11, cut off at 10; at 1/4, 2 sqrt(3/16) n >= 6 needs 7
    assert DARS.totals == (10, 7, 4, 4, 4)
    assert SPEED.totals == (3, 9, 9, 3)
    assert COMMIT.totals == (5, 5, 9, 9, 5, 5)


@pytest.mark.parametrize("rule", PILOTS, ids=repr)
def test_every_walk_has_the_total_that_its_pilot_decides_on(rule):
    assert all(len(walk) == rule.totals[sum(walk[: rule.num_pilot])] for walk in every_walk(rule))


@pytest.mark.parametrize("rule", PILOTS, ids=repr)
@pytest.mark.parametrize("objective", [LinearObjective(), LogObjective()], ids=["linear", "log"])
def test_the_coefficient_is_unbiased_for_what_the_rule_supports(rule, objective):
    table = coefficient_table(objective, rule)
    assert table.min() >= 0
    assert table.max() <= 1 + 1e-12
    for rate in RATES:
        expected = sum(probability(outcomes, rate) * table[counts(outcomes)] for outcomes in every_walk(rule))
        assert expected == pytest.approx(rate * (1 - rate) * supported_weight(objective, rule, rate), rel=1e-12)


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
