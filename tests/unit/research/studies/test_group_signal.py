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
from research.studies.group_signal.best import best_with_known_rates, best_without_history
from research.studies.group_signal.by_mix import BETAS, bounds_of_mix
from research.studies.group_signal.outcome import outcome, second_outcome
from research.studies.group_signal.paper import CURVES, WORKED_EXAMPLE
from research.studies.group_signal.posterior_exit import pooled_prior, posterior_exit
from research.studies.group_signal.power import blind_below, group_size_for, saving_limit, sequential_responses
from research.studies.group_signal.published_mix import published_mix
from research.studies.group_signal.rates import CountedRates, KnownRates, MixRates
from research.studies.group_signal.rules import BALANCE, RULES
from research.studies.group_signal.uniform import uniform_groups

PASS_RATES = (0.01, 0.1, 0.3, 0.5, 0.8, 0.99)
WIDE = MixRates(Mix(0.0, 0.0, 0.5, 0.5))
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


def test_uniform_groups_follow_the_closed_form_up_to_256():
    groups = uniform_groups(KnownRates(PASS_RATES), 256)
    for row, p in enumerate(PASS_RATES):
        sizes = np.arange(1, 257)
        assert groups.signal_by_size[row] == pytest.approx(1 - p**sizes - (1 - p) ** sizes, abs=1e-12)


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


def test_published_exact_sums_of_seq_pos():
    """Blocks of 8 at 0.9: 43 % of the groups are all right."""
    assert outcome(RULES["Seq-pos, blocks of 8"], KnownRates([0.9])).signal == pytest.approx(0.57, abs=0.0005)


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
    mix, miss = published_mix(model)
    assert miss < 0.013
    assert mix.mean() == pytest.approx(CURVES[model]["pass"][0], abs=0.01)


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


def test_a_second_visit_is_the_first_where_nothing_is_remembered():
    again = second_outcome(BALANCE, lambda end: BALANCE, WIDE)
    once = outcome(BALANCE, WIDE)
    assert again.responses == pytest.approx(once.responses, rel=1e-10)
    assert again.signal == pytest.approx(once.signal, rel=1e-10)


def test_a_second_visit_depends_on_where_the_first_ended():
    """Two responses first; two more in the second visit where they were alike, none otherwise but one."""
    found = second_outcome(FixedRule(2), lambda end: FixedRule(2 if 0 in end else 1), KnownRates([0.25]))
    alike = 0.25**2 + 0.75**2
    assert found.responses == pytest.approx(2 * alike + 1 - alike)
    assert found.signal == pytest.approx(alike * 2 * 0.25 * 0.75)


def test_giving_up_saves_more_once_prompts_are_known():
    plain = outcome(BALANCE, WIDE)
    first, second = posterior_exit(BALANCE, WIDE)
    assert second.responses < first.responses < plain.responses
    assert plain.signals_per_1000 < first.signals_per_1000 < second.signals_per_1000
    assert second.signal < first.signal < plain.signal


def test_the_prior_is_that_of_the_mix():
    prior = pooled_prior(BALANCE, WIDE)
    assert (prior.alpha, prior.beta) == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize("pass_rate", [0.005, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("chance", [0.5, 0.9, 0.99])
def test_the_group_size_is_the_smallest_that_does(pass_rate, chance):
    size = group_size_for(pass_rate, chance)
    assert 1 - pass_rate**size - (1 - pass_rate) ** size >= chance
    assert size == 2 or 1 - pass_rate ** (size - 1) - (1 - pass_rate) ** (size - 1) < chance


@pytest.mark.parametrize("block", [1, 3, 4])
def test_expected_sequential_responses_equal_path_counting(block):
    for pass_rate in (0.02, 0.3, 0.5, 0.9):
        exact = outcome(QuotaRule(1, 1, block, 24), KnownRates([pass_rate])).responses
        assert sequential_responses(pass_rate, 24, block) == pytest.approx(exact, rel=1e-12)


def test_the_saving_tends_to_its_limit():
    for chance in (0.5, 0.9, 0.99):
        size = group_size_for(1e-5, chance)
        assert size / sequential_responses(1e-5, size, block=1) == pytest.approx(saving_limit(chance), rel=1e-3)


def test_what_a_group_is_blind_to():
    for size in (4, 32, 256):
        rate = blind_below(size)
        assert rate**size + (1 - rate) ** size == pytest.approx(0.5, abs=1e-9)
    assert blind_below(256) == pytest.approx(math.log(2) / 256, rel=0.01)
    with pytest.raises(ValueError, match="at least 3"):
        blind_below(2)


def test_nothing_beats_the_bounds():
    for mix in (*MIXES.values(), UNEVEN):
        rates = MixRates(mix)
        bounds = bounds_of_mix(mix)
        for rule in (*RULES.values(), FixedRule(2), FixedRule(16)):
            found = outcome(rule, rates)
            assert found.signal <= bounds.without_history.at(found.responses) + 1e-9
            # 1,000 quantiles stand for the mix in the second
            assert bounds.without_history.at(found.responses) <= bounds.with_known_rates.at(found.responses) + 5e-4


def test_the_bound_without_history_is_reached_by_the_best_of_all_small_rules():
    """Rules that stop after fixed numbers of equal right and equal wrong responses, and lots between two of them."""
    rates = MixRates(Mix(0.3, 0.0, 1.0, 2.0))
    corners = [(0.0, 0.0)]
    moments = {
        (right, wrong): float(rates.mean(rates.scaled_moments(np.array([right]), np.array([wrong]))[:, 0]))
        / 2.0 ** (right + wrong)
        for right, wrong in [(n, 0) for n in range(14)] + [(0, n) for n in range(14)]
    }
    for most_right, most_wrong in itertools.product(range(1, 13), repeat=2):
        responses = (
            1.0 + sum(moments[n, 0] for n in range(1, most_right)) + sum(moments[0, n] for n in range(1, most_wrong))
        )
        corners.append((responses, 1.0 - moments[most_right, 0] - moments[0, most_wrong]))
    frontier = best_without_history(rates)
    for at in (1.0, 2.0, 3.0):
        reached = max(
            low[1] + (high[1] - low[1]) * (at - low[0]) / (high[0] - low[0])
            for low, high in itertools.product(corners, repeat=2)
            if low[0] <= at <= high[0] and low[0] < high[0]
        )
        assert frontier.at(at) == pytest.approx(reached, abs=2e-3)  # the grid of prices


def test_the_bound_with_known_rates_leaves_the_costly_prompts_out():
    """Half of the prompts at 1/2 (3 responses until a signal), half at 0: 1.5 responses on average are enough."""
    frontier = best_with_known_rates(KnownRates([0.5, 0.0]))
    assert frontier.at(1.5) == pytest.approx(0.5, abs=1e-9)
    assert frontier.at(100.0) == pytest.approx(0.5, abs=1e-9)
    assert frontier.at(0.75) == pytest.approx(0.25, abs=1e-3)


def test_uniform_groups_between_whole_sizes_are_a_lot_between_two():
    groups = uniform_groups(KnownRates([0.5]), 4)
    assert groups.signal_at(2.5) == pytest.approx((0.5 + 0.75) / 2)
    assert groups.size_for(0.625) == pytest.approx(2.5)
    assert groups.size_for(0.9) == math.inf
    with pytest.raises(ValueError, match="groups of 5 responses are outside the computed sizes, 1 to 4"):
        groups.signal_at(5)
