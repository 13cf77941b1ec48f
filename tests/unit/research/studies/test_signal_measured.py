"""Measured figures, the fitted mix, the files of counts, and the page."""

from __future__ import annotations

import math

import numpy as np
import pytest

from research.benchmarks.simulation.pass_rates import Mix
from research.studies.group_signal.measured import measured_figures
from research.studies.group_signal.mix_fit import fit_mix, likely_rates, log_likelihood
from research.studies.group_signal.rates import CountedRates
from research.studies.group_signal.resampling import resampled_means, with_interval
from research.studies.group_signal.uniform import uniform_groups

MIX = Mix(0.25, 0.1, 0.6, 1.5)


@pytest.fixture(scope="module")
def counts():
    generator = np.random.default_rng(0)
    rates = np.concatenate([np.zeros(100), np.ones(40), generator.beta(MIX.alpha, MIX.beta, 260)])
    return CountedRates(generator.binomial(64, rates), np.full(400, 64))


@pytest.fixture(scope="module")
def few(counts):
    return CountedRates(counts.positives_R[::5], counts.responses_R[::5])


@pytest.fixture(scope="module")
def figures(few):
    return measured_figures(few)


def test_the_fit_finds_the_mix_that_made_the_counts(counts):
    """Within about two standard errors of 400 prompts, and likelier than the truth."""
    fit = fit_mix(counts.positives_R, counts.responses_R)
    assert fit.mix.never == pytest.approx(MIX.never, abs=0.06)
    assert fit.mix.always == pytest.approx(MIX.always, abs=0.04)
    assert fit.mix.alpha == pytest.approx(MIX.alpha, rel=0.35)
    assert fit.mix.beta == pytest.approx(MIX.beta, rel=0.35)
    assert fit.log_likelihood >= log_likelihood(MIX, counts.positives_R, counts.responses_R)
    for interval, share in ((fit.never_interval, MIX.never), (fit.always_interval, MIX.always)):
        assert interval[0] < share < interval[1]


def test_an_interval_ends_where_the_likelihood_falls_by_half_a_chi_square():
    """All of 3,000 responses wrong or half of them: the share of never-solved prompts is a binomial proportion."""
    positives, responses = np.array([0] * 30 + [1500] * 70), np.full(100, 3000)
    low, high = fit_mix(positives, responses).never_interval

    def drop(share):
        return 30 * math.log(0.3 / share) + 70 * math.log(0.7 / (1 - share))

    assert drop(low) == pytest.approx(1.9207, abs=0.02)
    assert drop(high) == pytest.approx(1.9207, abs=0.02)


def test_counts_without_a_prompt_at_the_end_leave_no_share_there():
    fit = fit_mix(np.array([3, 5, 9, 12, 14] * 8), np.full(40, 20))
    assert (fit.mix.never, fit.mix.always) == (0.0, 0.0)
    assert fit.never_interval[0] == fit.always_interval[0] == 0.0


def test_measured_curves_are_means_of_unbiased_estimates(figures, few):
    groups = uniform_groups(few, 64)
    assert figures["curves"]["all_right"]["16"]["mean"] == pytest.approx(groups.all_right_RN[:, 15].mean())
    assert figures["curves"]["pass"]["1"]["mean"] == pytest.approx(few.positives_R.mean() / 64)
    for curve in figures["curves"].values():
        for size, found in curve.items():
            assert found["low"] <= found["mean"] <= found["high"], size


def test_a_lead_is_over_uniform_groups_of_as_many_responses(figures, few):
    row = figures["rules"]["Seq-balance, blocks of 4"]
    uniform = uniform_groups(few, 64).signal_at(row["responses"]["mean"])
    assert row["lead_signal"]["mean"] == pytest.approx(row["signal"]["mean"] - uniform, rel=1e-9)
    balanced = uniform_groups(few, 64).balanced_at(row["responses"]["mean"])
    assert row["lead_balanced"]["mean"] == pytest.approx(row["balanced"]["mean"] - balanced, rel=1e-9)
    assert row["signal"]["mean"] == pytest.approx(figures["curves"]["signal"]["32"]["mean"])
    assert row["signals_per_1000"]["mean"] == pytest.approx(1000 * row["signal"]["mean"] / row["responses"]["mean"])


def test_an_interval_of_a_mean_is_about_two_standard_errors_wide():
    values = np.random.default_rng(1).normal(size=(400, 1))
    means = resampled_means(values)
    found = with_interval(float(values.mean()), means[:, 0])
    error = float(values.std()) / 20
    assert found["high"] - found["low"] == pytest.approx(2 * 1.96 * error, rel=0.04)  # quantiles of 10,000 resamples


def test_no_rule_beats_the_bounds_on_counts(figures):
    for name, row in figures["rules"].items():
        if name == "posterior exit, second visit":
            continue  # it has a history
        assert row["signal"]["mean"] <= row["best_without_history"] + 1e-9, name
        assert row["best_without_history"] <= row["best_with_known_rates"] + 0.01, name


def test_likely_rates_follow_the_posterior():
    mix = Mix(0.25, 0.0, 1.0, 1.0)
    rates = likely_rates(mix, np.array([0, 30]), np.array([2, 40])).pass_rates.reshape(2, -1)
    assert (rates[0] == 0).mean() == pytest.approx(0.25 / (0.25 + 0.75 / 3), abs=0.051)  # one of 20 quantiles
    assert rates[0][rates[0] > 0].mean() == pytest.approx(1 / 4, abs=0.01)
    assert rates[1].mean() == pytest.approx(31 / 42, abs=0.002)


def test_budgets_beyond_the_counts_are_left_out(figures):
    assert {name for name in figures["rules"] if name.startswith("up to")} == {f"up to {n}" for n in (8, 16, 32, 64)}
