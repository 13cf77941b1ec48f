from __future__ import annotations

import itertools

import numpy as np
import pytest

from ada_lightning.core.stopping.rule import FixedRule, QuotaRule
from ada_lightning.methods.advantages import PoolMeanAdvantage
from ada_lightning.methods.published.speed import SpeedSampler
from ada_lightning.methods.sampling import BalanceSampler, PositiveSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection
from research.benchmarks.simulation.pass_rates import Mix
from research.studies.variance.files import KINDS, load
from research.studies.variance.rules import EXACT_P, of_method
from research.studies.variance.update_moments import (
    chosen_bound,
    ends_with,
    fixed_weight,
    generated_bound,
    trained_bound,
    update_moments,
)

RATES = np.array([0.03, 0.2, 0.5, 0.8, 0.97])
UNIT = RATES * (1.0 - RATES)


def test_an_update_has_the_mean_and_the_second_moment_of_simulated_scores():
    """Scores in 3 dimensions with the classes' means and spreads; 200,000 prompts of the official rule."""
    rate, delta, spreads = 0.3, np.array([1.0, -0.5, 0.2]), (0.7, 1.3)
    ends = of_method(
        BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=12, group_size=4),
        BalancedSelection(group_size=4),
        PoolMeanAdvantage(),
    )
    chance_E = ends.probabilities(rate)
    generator = np.random.default_rng(0)
    end_X = generator.choice(len(chance_E), size=200_000, p=chance_E / chance_E.sum())
    means = ((1 - rate) * delta, -rate * delta)
    update_XD = np.zeros((len(end_X), 3))
    for mean, spread, sums_E, squares_E in (
        (means[0], spreads[0], ends.positive_sums_E, ends.positive_squares_E),
        (means[1], spreads[1], ends.negative_sums_E, ends.negative_squares_E),
    ):
        noise_XD = generator.normal(size=(len(end_X), 3)) * spread / np.sqrt(3)
        update_XD += sums_E[end_X, None] * mean + np.sqrt(squares_E[end_X, None]) * noise_XD
    moments = update_moments(ends, np.array([rate]))
    second = (
        moments.signal_square_P * delta @ delta
        + moments.positive_noise_P * spreads[0] ** 2
        + moments.negative_noise_P * spreads[1] ** 2
    )
    error_D = update_XD.std(0) / np.sqrt(len(end_X))
    assert np.all(np.abs(update_XD.mean(0) - moments.signal_P * delta) < 4.5 * error_D)
    square_X = (update_XD**2).sum(1)
    assert abs(square_X.mean() - second[0]) < 4.5 * square_X.std() / np.sqrt(len(end_X))


def test_moments_are_those_of_all_orders_of_responses():
    """Pos with blocks of 2 and at most 6 responses: 64 orders, each ended where the rule says."""
    rule, rate = QuotaRule(1, 0, 2, 6), 0.35
    ends = of_method(
        PositiveSampler(k_pos=1, samples_per_round=2, n_max=6, group_size=6), AllSelection(), PoolMeanAdvantage()
    )
    expected = np.zeros(4)
    for order in itertools.product((True, False), repeat=6):
        drawn = next(n for n in range(1, 7) if rule.stops(sum(order[:n]), n - sum(order[:n])))
        chance = rate ** sum(order) * (1 - rate) ** (6 - sum(order))
        mean = sum(order[:drawn]) / drawn
        advantages = [(float(reward) - mean) for reward in order[:drawn]]
        k = sum(a * ((1 - rate) if reward else -rate) for a, reward in zip(advantages, order, strict=False))
        expected += chance * np.array([k, k**2, sum(a * a for a in advantages), drawn])
    moments = update_moments(ends, np.array([rate]))
    found = [moments.signal_P, moments.signal_square_P, moments.noise, moments.drawn]
    # Advantages are float32.
    assert np.concatenate(found) == pytest.approx(expected, rel=1e-6)


def test_rloo_has_the_variance_that_vip_states():
    """p q / (n - 1) for the mean over n responses of advantage times a score of unit norm (proposition 4.3)."""
    for size in (2, 5):
        moments = update_moments(of_method(UniformSampler(group_size=size), AllSelection(), EXACT_P), RATES)
        assert moments.signal_P == pytest.approx(UNIT, rel=1e-6)
        assert moments.noise == pytest.approx(UNIT / (size - 1), rel=1e-6)


def test_the_best_weights_attain_the_bounds():
    """A = r - p on all of a pool; r on the positives alone, per trained response of a hard prompt."""
    for rate in RATES:
        moments = update_moments(fixed_weight(FixedRule(5), float(rate)), np.array([rate]))
        assert moments.noise * moments.drawn / moments.signal_P**2 == pytest.approx(1 / (rate * (1 - rate)))
    moments = update_moments(fixed_weight(FixedRule(5), 0.0), np.array([0.2]))
    assert moments.noise * moments.kept / moments.signal_P**2 == pytest.approx(1 / 0.8**2)


def test_no_rule_is_below_a_bound():
    """Of all that the study computed, over every mix."""
    for rule, by_mix in load("exact")["rules"].items():
        least = min(part[f"{kind}_over_bound"] for part in by_mix.values() for kind in KINDS)
        assert least > 1 - 1e-4, rule  # five digits are kept


def test_bounds_of_a_mix_of_known_moments():
    """The arcsine distribution: E[sqrt(p q)] = 1 / pi, E[p q] = 1/8, E[min(p, q)] = 1/2 - 1/pi."""
    mix = Mix(0.0, 0.0, 0.5, 0.5)
    spread_P = mix.grid() * (1 - mix.grid())
    # 400 quantiles stand for the distribution.
    assert generated_bound(spread_P, mix) == pytest.approx(64 / np.pi**2, rel=1e-3)
    assert trained_bound(spread_P, mix) == pytest.approx(64 * (0.5 - 1 / np.pi) ** 2, rel=2e-3)
    assert chosen_bound(mix, 1e-9) == pytest.approx(4, rel=1e-4)
    half = 0.5 / ((np.pi / 4 + 0.5) / (4 * np.pi))  # mean of sin^2(2 t) / 4 where it is above its median
    assert chosen_bound(mix, 0.5) == pytest.approx(half, rel=5e-3)


def test_a_screen_weighs_what_it_turned_down_with_nothing():
    """Leave-one-out after a screen: a pool that differs among its first 4 goes on to 8."""
    sampler = SpeedSampler(num_screen=4, num_continue=4, group_size=8)
    moments = update_moments(of_method(sampler, AllSelection(), EXACT_P), RATES)
    goes_on = 1 - RATES**4 - (1 - RATES) ** 4
    assert moments.drawn == pytest.approx(4 + 4 * goes_on)
    assert moments.kept == pytest.approx(8 * goes_on)
    assert moments.signal_P == pytest.approx(UNIT, rel=1e-6)


def test_what_has_no_advantage_does_not_train():
    ends = ends_with(FixedRule(1), np.zeros(2), np.zeros(2))
    assert ends.positive_kept_E.sum() == ends.negative_kept_E.sum() == 0
