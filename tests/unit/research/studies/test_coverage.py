"""Intervals of coverage.py against scipy, curves.py and a small simulation; what its file says of the one in use."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from research.studies.coverage import (
    FILE,
    LEVELS,
    METHODS,
    PAIRS,
    PLAIN,
    SMOOTHED,
    USED,
    coverage,
    end_difference,
    log_factor,
    lowest,
    populations,
)
from research.studies.curves import FACTORS, MIN_PAIRS, LogScale, difference, time_scale

GENERATOR = np.random.default_rng(0)
VALUES = np.array([1.0, 4.0, -2.0, 9.0, 3.0, 3.5, 14.0, 6.0])
"""Eight, and halves: no sum is rounded, so ties are ties."""


def of_mean(weights):
    """A figure whose intervals are known: the mean of :data:`VALUES`."""
    return weights @ VALUES


@pytest.fixture(scope="module")
def known():
    return populations()


def runs(study, method):
    shares = np.linspace(0.0, 1.0, study.shape[2])
    return {
        seed: [{"generated_tokens": at, "held_out": rate} for at, rate in zip(shares, pair[method], strict=True)]
        for seed, pair in enumerate(study)
    }


def test_the_figures_and_the_interval_in_use_are_those_of_the_pages(known):
    """A parabola finds the best factor within a tenth of the step between those that are tried."""
    near = 0.1 * math.log(FACTORS[1] / FACTORS[0])
    widest = stats.t.ppf(0.9875, 4) * math.sqrt(3 / 2) * near  # what that makes of half of a width of five
    for of in known:
        study = of.draw(5, of.speed, SMOOTHED, np.random.default_rng(1))
        base, other = runs(study, 0), runs(study, 1)
        for chosen in ([0, 1, 2, 3, 4], [0, 2, 4]):
            weights = np.bincount(chosen, minlength=5)[None] / len(chosen)
            theirs = LogScale(base, other, "generated_tokens")(chosen)
            assert float(log_factor(study)(weights)[0]) == pytest.approx(theirs, abs=near)
        for place, level in enumerate(LEVELS):
            factor = time_scale(base, other, "generated_tokens", level=level)
            ours = METHODS[USED](log_factor(study), 5, GENERATOR)[place]
            assert ours == pytest.approx((math.log(factor.low), math.log(factor.high)), abs=near + widest)
            end = difference(base, other, level=level)
            assert METHODS[USED](end_difference(study), 5, GENERATOR)[place] == pytest.approx((end.low, end.high))


@pytest.mark.parametrize("method", [USED, "leaving one out, t", "t of the pairs' own figures"])
def test_of_a_mean_three_methods_are_the_t_interval(method):
    for level, found in zip(LEVELS, METHODS[method](of_mean, len(VALUES), GENERATOR), strict=True):
        theirs = stats.ttest_1samp(VALUES, 0.0).confidence_interval(level)
        assert found == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize(("method", "name"), [("percentile bootstrap", "percentile"), ("BCa bootstrap", "BCa")])
def test_bootstraps_are_those_of_the_values_themselves(method, name):
    for level, found in zip(LEVELS, METHODS[method](of_mean, len(VALUES), np.random.default_rng(3)), strict=True):
        theirs = stats.bootstrap(
            (VALUES,), np.mean, n_resamples=999, confidence_level=level, method=name, rng=np.random.default_rng(3)
        ).confidence_interval
        assert found == pytest.approx((theirs.low, theirs.high))


def test_the_studentised_bootstrap_by_hand():
    """Two values a and b: the resamples aa and bb have no error, ab and ba have the figure itself, so t = 0 or huge."""
    values = np.array([1.0, 2.0])
    low, high = METHODS["studentised bootstrap"](lambda weights: weights @ values, 2, np.random.default_rng(0))[0]
    error = 0.5  # half of the distance
    assert low == pytest.approx(1.5 - error * 0.5 / 1e-9)
    assert high == pytest.approx(1.5 + error * 0.5 / 1e-9)


def test_noise_has_the_covariance_of_committed_pairs(known):
    of = known[0]
    expected = np.mean(of.deviations.reshape(len(of.deviations), -1) ** 2, axis=0)
    for smoothing in (SMOOTHED, PLAIN):
        drawn = of.draw(20_000, 1.0, smoothing, np.random.default_rng(0)) - of.curves(1.0)
        variances = drawn.reshape(len(drawn), -1).var(0)
        assert variances == pytest.approx(expected, rel=0.06)  # six standard errors of a normal variance


@pytest.mark.long
def test_a_small_simulation_tells_the_two_apart(known):
    """200 studies of five pairs: at a coverage of 0.93 fewer than 167 hold once in 10^5, at 0.86 more than 190 do."""
    number = 200
    rows = coverage(known[0], 1.6, 5, SMOOTHED, number)
    of = {"figure": "factor", "level": 0.95}
    held = number * lowest(rows, method=USED, **of)
    assert held >= stats.binom.ppf(1e-5, number, 0.93)
    assert number * lowest(rows, method="percentile bootstrap", **of) < held
    assert number * lowest(rows, method="percentile bootstrap", **of) <= stats.binom.ppf(1 - 1e-5, number, 0.86)


def test_the_committed_counts_are_why_this_interval_is_printed_and_from_five_pairs_on():
    rows = json.loads(FILE.read_text())["rows"]
    for pairs in (pairs for pairs in PAIRS if pairs >= MIN_PAIRS):
        for figure in ("factor", "end"):
            of = {"figure": figure, "method": USED, "pairs": pairs, "smoothing": SMOOTHED}
            assert lowest(rows, level=0.95, **of) >= 0.93
            assert lowest(rows, level=0.975, **of) >= 0.955
    few = {"method": USED, "pairs": 3, "smoothing": PLAIN, "level": 0.95}
    assert lowest(rows, **few) < 0.93
