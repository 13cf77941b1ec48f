from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from scipy import stats

from ada_lightning.analysis.evaluation.intervals import MIN_PROMPTS, Estimate, estimate_means
from research.audit.coverage import EVALUATION, PROMPTS, RESPONSES, evaluation_coverage, lowest
from research.benchmarks.report import DOCS

SHARE = np.array([[0.0], [1.0]])


def estimate(values, ends=SHARE):
    (found,) = estimate_means([np.asarray(values, float)[:, None]], [1.0], np.asarray(ends, float))
    return found


def test_the_interval_is_students_with_a_prompt_more_at_either_end():
    """Its degrees of freedom are those of the prompts that are there."""
    values = np.array([0.0, 0.0, 0.25, 0.5, 0.0, 1.0, 0.25])
    more = np.array([*values, 0.0, 1.0])
    margin = stats.t.ppf(0.975, 6) * more.std(ddof=1) / 3
    found = estimate(values)
    assert (found.mean, found.num_prompts) == (pytest.approx(values.mean()), 7)
    assert (found.low, found.high) == (0.0, pytest.approx(more.mean() + margin))
    assert more.mean() - margin < 0
    scaled = estimate(300 * values - 100, [[-100], [200]])
    expected = [300 * value - 100 for value in (found.mean, found.low, found.high)]
    assert [scaled.mean, scaled.low, scaled.high] == pytest.approx(expected)


def test_sets_add_their_variances_as_welch_has_it():
    generator = np.random.default_rng(4)
    sets, shares = [generator.beta(0.3, 2, 40), generator.beta(2, 1, 8)], np.array([0.7, 0.3])
    errors = np.array([np.var([*values, 0, 1], ddof=1) / (len(values) + 2) for values in sets]) * shares**2
    margin = stats.t.ppf(0.975, errors.sum() ** 2 / (errors**2 / [39, 7]).sum()) * math.sqrt(errors.sum())
    mean, number = shares @ [values.mean() for values in sets], 1 / (shares**2 / [40, 8]).sum()
    centre = (number * mean + 0 + 1) / (number + 2)
    (found,) = estimate_means([values[:, None] for values in sets], 10 * shares, SHARE)
    assert (found.mean, found.low, found.high) == pytest.approx((mean, centre - margin, centre + margin))
    assert found.num_prompts == 48


@pytest.mark.parametrize("value", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("number", [5, 20, 100])
def test_prompts_that_all_agree_leave_as_much_in_doubt_as_so_many_can(number, value):
    """For a share of 0 it is near the rule of three: the truth is below 3.7 / n with 97.5 %."""
    found = estimate([value] * number)
    assert found.mean == value
    assert 0 <= found.low <= value <= found.high <= 1
    assert 1.8 / (number + 2) < found.high - found.low < 4.6 / number
    if value == 0:
        exact = 1 - 0.025 ** (1 / number)
        assert 0.8 * exact < found.high < 1.25 * exact


def test_the_mean_lies_in_its_interval_whatever_the_sets():
    generator = np.random.default_rng(7)
    for _ in range(300):
        sizes = generator.integers(MIN_PROMPTS, 40, size=generator.integers(1, 12))
        rates = generator.choice([0.0, 0.02, 0.5, 1.0], size=len(sizes))
        values = [generator.binomial(4, rate, size=(size, 1)) / 4 for rate, size in zip(rates, sizes, strict=True)]
        (found,) = estimate_means(values, generator.uniform(0.01, 1, size=len(sizes)), SHARE)
        assert found.low <= found.mean + 1e-12
        assert found.high >= found.mean - 1e-12


@pytest.mark.parametrize("number", [5, 6, 8, 10, 15, 20, 50, 100, 500])
def test_no_pass_rate_of_one_response_a_prompt_is_held_less_often_than_in_93_of_100(number):
    """Exact, by the binomial: every number of right prompts with its interval. And so is what the counts come from."""
    right = np.arange(number + 1)
    columns = (np.arange(number)[:, None] < right).astype(float)
    found = estimate_means([columns], [1.0], np.repeat(SHARE, number + 1, axis=1))
    low, high = np.array([(of.low, of.high) for of in found]).T
    rates = np.concatenate([np.geomspace(1e-4, 0.05, 200), np.linspace(0.05, 0.5, 300)])
    holds = (low[:, None] <= rates) & (rates <= high[:, None])
    assert (stats.binom.pmf(right[:, None], number, rates) * holds).sum(axis=0).min() >= 0.93


@pytest.mark.long
def test_a_small_simulation_holds_what_the_page_says(monkeypatch):
    """300 draws of 5 and 20 prompts: at a coverage of 0.93 fewer than the bound hold once in 10^6."""
    monkeypatch.setattr("research.audit.coverage.NUM_TRUTH", 200_000)
    rows = evaluation_coverage(300, prompts=(5, 20))
    printed = [row for row in rows if row["interval"] == "as printed"]
    assert {row["kind"] for row in printed} == {"share", "reward", "difference", "length", "sets"}
    for row in printed:
        number = 60 if row["kind"] == "sets" else 300
        assert number * row["covered"] >= stats.binom.ppf(1e-6, number, 0.93), row
    assert lowest(rows, interval="BCa bootstrap", prompts=5) < 0.75
    assert lowest(rows, interval="t over prompts", prompts=20) < 0.9


def test_the_committed_counts_are_why_this_interval_is_printed():
    rows = json.loads(EVALUATION.read_text())["rows"]
    assert min(PROMPTS) == MIN_PROMPTS
    for number in PROMPTS:
        assert lowest(rows, interval="as printed", prompts=number) >= 0.93
    assert {row["responses"] for row in rows} == set(RESPONSES)
    assert lowest(rows, interval="BCa bootstrap", prompts=20) < 0.93


def test_the_pages_intervals_are_those_of_these_prompts():
    of_runs, of_walkthrough = ((DOCS / name).read_text() for name in ("runs.md", "walkthrough.md"))
    of_runs = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", of_runs)  # without links
    none = estimate([0.0] * 20)
    assert f"20 prompts without a right response have a pass rate of 0.000 [0.000, {none.high:.3f}]" in of_runs
    third, change = estimate([1.0] * 33 + [0.0] * 67), estimate([1.0] * 2 + [-1.0] * 11 + [0.0] * 87, [[-1.0], [1.0]])
    for found in (third, change):
        assert f"[{found.low:.3f}, {found.high:.3f}]" in of_walkthrough


def test_missing_figures_are_means_over_the_others_and_one_that_a_set_lacks_has_no_average():
    first = np.array([[1.0, 0.5], [0.0, np.nan], [1.0, 1.0], [0.0, np.nan], [0.5, 0.0], [0.5, 0.0], [0.5, 1.0]])
    second = np.array([[1.0, np.nan]] * 6)
    ends = np.repeat(SHARE, 2, axis=1)
    whole, partly = estimate_means([first, second], [1, 0], ends)
    assert (whole.mean, whole.num_prompts) == (0.5, 7)
    assert partly == estimate([0.5, 1.0, 0.0, 0.0, 1.0])
    whole, missing = estimate_means([first, second], [1, 1], ends)
    assert whole.mean == 0.75
    assert np.isnan(missing.mean)
    assert missing.low is missing.high is None


def test_too_few_prompts_have_no_interval_and_neither_has_an_average_with_them():
    few, enough = np.array([[1.0]] * 4), np.array([[0.0], [0.5], [0.5], [1.0], [0.0]])
    assert estimate(few[:, 0]) == Estimate(1.0, None, None, 4)
    assert estimate(enough[:, 0]).low is not None
    assert estimate_means([few, enough], [1, 1], SHARE) == [Estimate(pytest.approx(0.7), None, None, 9)]


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([], "needs prompts in every set"),
        ([np.empty((0, 1))], r"needs prompts in every set; got \[0\]"),
        ([np.ones((2, 1)), np.ones((2, 2))], "different figures"),
        ([np.array([[1.5]])], r"outside of its range; ranges: \[\[0.0, 1.0\]\]"),
        ([np.array([[-0.5]])], "outside of its range"),
    ],
)
def test_what_cannot_work_is_refused(sets, message):
    with pytest.raises(ValueError, match=message):
        estimate_means(sets, [1.0] * len(sets), SHARE)
