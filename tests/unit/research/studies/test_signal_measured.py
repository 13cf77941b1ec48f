"""Measured figures: unbiased, with their intervals; the committed ones are those of the committed counts."""

from __future__ import annotations

import numpy as np
import pytest

from research.benchmarks.simulation.pass_rates import Mix
from research.studies.group_signal.measured import measured_figures, read_counts, resampled_means, with_interval
from research.studies.group_signal.outcome import uniform_groups
from research.studies.group_signal.rates import CountedRates
from research.studies.group_signal.rules import counts_file
from research.studies.group_signal.tables import load

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


def test_budgets_beyond_the_counts_are_left_out(figures):
    assert {name for name in figures["rules"] if name.startswith("up to")} == {f"up to {n}" for n in (8, 16, 32, 64)}


@pytest.mark.parametrize("model", ["untrained", "trained"])
def test_measured_figures_are_those_of_the_counts(model):
    made, kept = measured_figures(read_counts(counts_file(model))), load("measured")[model]
    for size, found in made["curves"]["pass"].items():
        assert found == pytest.approx(kept["curves"]["pass"][size])
    for name, figures in made["rules"].items():
        for figure in ("responses", "signal", "lead_signal", "lead_balanced"):
            assert figures[figure] == pytest.approx(kept["rules"][name][figure], abs=1e-9)
