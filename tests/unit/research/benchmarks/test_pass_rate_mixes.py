"""Expectations over mixes against known values and against the real sampler."""

from __future__ import annotations

import numpy as np
import pytest

from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.methods.sampling.forecast import forecast
from ada_lightning.methods.selection import BalancedSelection
from research.benchmarks.simulation.pass_rates import MIXES, PUBLISHED, Mix, describe, expectations


def test_expected_samples_of_the_released_defaults():
    # Exact dynamic programme over blocks of 8, at most 32, quotas 2/2.
    samples = expectations(np.array([0.1, 0.2, 0.3, 0.5]), block=8, n_max=32)["samples"]
    assert samples == pytest.approx([20.96, 13.42, 10.28, 8.57], abs=0.01)


def test_expectations_at_pass_rates_that_never_resolve():
    at_0_1 = expectations(np.array([0.0, 1.0]), block=4, n_max=32)
    assert at_0_1["samples"].tolist() == [32, 32]
    assert at_0_1["short_of_positives"].tolist() == [1, 0]
    assert at_0_1["short_of_negatives"].tolist() == [0, 1]
    assert at_0_1["positive_in_two"].tolist() == [0, 1]
    assert at_0_1["both_in_two"].tolist() == [0, 0]


def test_expected_samples_agree_with_the_sampler():
    sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)
    mix = Mix(0.0, 0.0, 0.5, 0.5)
    tallies = [(round(10_000 * rate), 10_000) for rate in mix.rates(40, seed=0)]  # so many that rates are known
    simulated = forecast(tallies, sampler, BalancedSelection(group_size=4)).num_sampled
    exact = describe(mix)["additional"] / 512 + 4
    assert simulated == pytest.approx(exact, rel=0.06)


@pytest.mark.parametrize("name", PUBLISHED)
def test_mixes_reproduce_the_published_counts(name):
    figures = describe(MIXES[name])
    assert figures["additional"] == pytest.approx(PUBLISHED[name]["additional"], rel=0.01)
    for key in ("short_of_positives", "short_of_negatives"):
        assert figures[key] == pytest.approx(PUBLISHED[name].get(key, figures[key]), abs=4)


def test_rates_follow_the_mix():
    mix = Mix(0.25, 0.125, 2.0, 3.0)
    rates = mix.rates(400, seed=0)
    assert rates.count(0.0) == 100
    assert rates.count(1.0) == 50
    assert sum(rates) / 400 == pytest.approx(mix.mean(), abs=1e-3)
    assert rates != mix.rates(400, seed=1)
