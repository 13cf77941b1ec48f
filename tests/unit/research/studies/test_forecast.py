"""Forecasts on prompts whose pass rates are known, and what the study's page says of its rows."""

import json
from itertools import product

import numpy as np
import pytest

from research.studies.forecast import probes, rules, tables
from research.studies.forecast.replay import replayed, steps_of
from research.studies.real_model.setting import RESULTS

EVEN, SURE = "even", "sure"
BLIND = {scale: (np.ones(16), np.ones(16)) for scale in (0.0, rules.COMMITTED)}


def step(generator, even=EVEN, beliefs=None):
    """Half of the prompts are right every other time, half always or never: every task's pass rate is one half."""
    rate = np.where(np.arange(16) < 8, 0.5, np.arange(16) % 2)
    names = [even, EVEN if even == SURE else SURE]
    return rules.Step([names[place // 8] for place in range(16)], generator.binomial(4, rate), beliefs or BLIND)


@pytest.fixture
def generator():
    return np.random.default_rng(5)


def late(steps, score, since):
    """Share with a signal of the quarter that a forecast takes, from a step on."""
    return np.mean(
        [rules.taken(score(steps[:at], of), 4) @ of.has_signal / 4 for at, of in enumerate(steps) if at >= since]
    )


def test_where_tasks_differ_in_spread_alone_only_forecasts_of_spread_find_the_prompts(generator):
    steps = [step(generator) for _ in range(30)]
    found = {name: late(steps, score, 15) for name, score in rules.FORECASTS.items()}
    blind = {name for name, share in found.items() if share < 0.6}
    assert blind == {name for name in found if name.startswith("committed") and "times" not in name} | {
        "task's name, pass rate"
    }
    for name in set(found) - blind:
        assert found[name] == pytest.approx(7 / 8, abs=0.06), name  # the ceiling: 1 - 2 / 2^4
    assert found[rules.BASE] == pytest.approx(7 / 16, abs=0.06)  # all alike: the mean of all


def test_a_task_that_changed_is_found_sooner_by_what_forgets_faster(generator):
    steps = [step(generator) for _ in range(15)] + [step(generator, even=SURE) for _ in range(8)]
    slow, _, fast = (late(steps, rules.task_spread(fading), 19) for fading in rules.FADINGS)
    assert slow < 0.2
    assert fast > 0.7


def test_a_belief_as_wide_as_chance_is_told_from_a_sure_one_by_its_spread_and_not_by_its_mean(generator):
    width = np.where(np.arange(16) < 8, 50.0, 0.05)
    of = step(generator, beliefs={rules.COMMITTED: (width, width)})
    shares = [rules.taken(score([], of), 4)[:8].sum() / 4 for score in (rules.FORECASTS[rules.BASE], rules.rate)]
    assert shares == [1.0, 0.5]
    assert rules.signal([], of)[:8] == pytest.approx(7 / 8, abs=0.01)


def test_a_logistic_regression_finds_the_rates_and_counts_late_visits_more():
    rows = np.array([[1.0, 0.0], [1.0, 1.0]] * 200)
    right = np.array([1.0, 3.0] * 200)
    first, second = rules.fitted(rows, right, 4, np.ones(400))
    assert 1 / (1 + np.exp(-np.array([first, first + second]))) == pytest.approx([0.25, 0.75], abs=0.01)
    weight = np.array([1.0, 0.0] * 100 + [1.0, 1.0] * 100)  # the second prompt counts where it is never right
    right = np.array([1.0, 3.0] * 100 + [1.0, 0.0] * 100)
    first, second = rules.fitted(rows, right, 4, weight)
    assert 1 / (1 + np.exp(-(first + second))) < 0.05


def test_probes_have_the_shares_of_an_enumeration():
    """Two of eight prompts have two right of four; a probe of two sees them differ with 2/3 each."""
    beliefs = {rules.COMMITTED: (np.ones(8), np.ones(8))}
    of = rules.Step(["a"] * 8, np.array([0, 2, 2, 0, 0, 4, 0, 4]), beliefs)
    both, one, none = 4 / 9, 4 / 9, 1 / 9
    assert probes.own_counts(of)[1] == pytest.approx(both / 2 + one / 4, abs=0.03)
    signal, spread = probes.trains_too(of)  # the first four are probed; who is alike shares what is left
    assert signal == pytest.approx(both + one * 2 / 3 + none / 2, abs=0.03)
    assert np.isnan(spread)


def test_a_thrown_away_probe_is_judged_by_what_it_did_not_see(generator):
    """Every group is mixed as chance has it, so a probe knows nothing: what it takes is as good as all."""
    beliefs = {rules.COMMITTED: (np.ones(4000), np.ones(4000))}
    of = rules.Step(["a"] * 4000, generator.binomial(4, 0.5, 4000), beliefs)
    assert probes.thrown_away(of)[1] == pytest.approx(0.25, abs=0.02)
    assert probes.trains_too(of)[0] > 0.99  # and of those that train it takes what it has seen differ


@pytest.mark.parametrize("first", [0.0, 0.1, 0.3, 0.5])
def test_the_share_with_a_signal_is_within_what_the_spread_allows(first):
    for second, share in product((0.0, 0.2, 0.5), (0.25, 0.5, 1.0)):
        p, weight = np.array([first, second]), np.array([share, 1 - share])
        low, high = tables.signal_between(float(weight @ (p * (1 - p))))
        assert low - 1e-9 <= weight @ (1 - p**4 - (1 - p) ** 4) <= high + 1e-9


def test_two_runs_of_the_same_prompts_are_one_run_to_an_interval():
    values = dict(enumerate([0.1, 0.5, 0.4, 0.9, 0.3, 0.6]))
    keys = [(run, number) for run in "ab" for number in values]
    once, twice = (
        tables.over_steps(lambda of: float(np.mean([values[number] for _, number in of])), of)
        for of in (keys[:6], keys)
    )
    assert once == twice
    assert once.low < once.value < once.high


def test_rows_are_of_the_second_half_and_none_where_a_probe_tells_nothing(generator):
    rows = {row["rule"]: row for row in replayed("run", [step(generator) for _ in range(7)])}
    assert {tuple(row["steps"]) for row in rows.values()} == {(4, 5, 6)}
    assert set(rows) == {"uniform", *rules.FORECASTS, *probes.PROBES}
    assert rows["probe of 2, trains too"]["spread"] == [None] * 3
    assert rows["probe of 2, thrown away"]["signal"] == [None] * 3


def test_groups_of_another_size_are_refused():
    with pytest.raises(ValueError, match=r"groups of \[8\] responses are stored; the rules compare groups of 4"):
        steps_of([[("a", 3, 8)]], {})


def test_the_committed_forecast_is_that_of_the_calibration_where_no_prompts_are_alike():
    rows = json.loads(tables.FILE.read_text())["rows"]
    known = json.loads((RESULTS / "calibration.json").read_text())["rows"]
    names = {0.0: "committed, no spread of its own", rules.COMMITTED: rules.BASE}
    for row in known:
        if row["spread_scale"] in names:
            share = tables.mean(tables.cells(rows, names[row["spread_scale"]], "signal", [row["run"]]))
            assert share == pytest.approx(row["signal_of_chosen"], abs=0.025)  # of 152 to 216 that are taken


def test_the_page_is_right_that_no_forecast_is_decided_and_only_what_measures_reaches_one_half():
    rows = json.loads(tables.FILE.read_text())["rows"]
    apart = [tables.difference(rows, name) for name in rules.FORECASTS if name != rules.BASE]
    assert all(each.low < 0 < each.high for each in apart)
    shares = [tables.mean(tables.cells(rows, name, "signal")) for name in rules.FORECASTS]
    assert max(shares) < 0.5
    keys = list(tables.cells(rows, rules.BASE, "signal"))
    assert min(tables.share_of(rows, name)(keys) for name in probes.PROBES) > 0.5
    assert all(
        tables.dearer(rows, name, 0.0).high > 1 for name in ("probe of 2, thrown away", "probe of 2, trains too")
    )
