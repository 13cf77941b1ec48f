import math

import numpy as np
import pytest
from scipy import stats

from research import plotting
from research.studies.contest import comparison
from research.studies.curves import (
    best_factor,
    common_seeds,
    difference,
    final_level,
    half_width,
    jackknifed,
    mean_curve,
    time_scale,
)
from research.studies.curves_plot import Picture, plot, plot_factor, seed_luck

TOKENS = np.linspace(0.0, 480.0, 121)


def rate(tokens):
    """Rises from 0.2 and is flat at the end, as the field's curves are."""
    return 0.4 - 0.2 * np.exp(-tokens / 80)


def curve(tokens, rates, seconds_per_token=2.0):
    return [
        {"generated_tokens": at, "trained_tokens": at, "seconds": seconds_per_token * at, "held_out": level}
        for at, level in zip(tokens, rates, strict=True)
    ]


def run(speed, *, lift=0.0):
    """A run that is ``speed`` times faster; ``lift`` is how much higher it comes, by share of its way."""
    rates = rate(speed * TOKENS)
    return curve(TOKENS, rates + lift * (rates - 0.2) / 0.2)


def line(slope, *, seconds_per_token=0.1):
    """Rises by a straight line; ends at 10 * slope."""
    return curve(10.0 * np.arange(11), slope * np.arange(11), seconds_per_token)


def seeds(*curves):
    return dict(enumerate(curves))


def test_costs_are_those_at_equal_numbers_of_tokens():
    slow, fast = line(0.1, seconds_per_token=0.3), line(0.2, seconds_per_token=0.1)
    costs, rates = mean_curve([slow, fast], "seconds")
    assert (costs[0], costs[-1]) == pytest.approx((0.0, 100 * 0.2))  # the mean of both, whatever either took
    assert rates[:, -1] == pytest.approx([1.0, 2.0])
    costs, rates = mean_curve([slow, fast[:6]], "generated_tokens")
    assert costs[-1] == 50.0


def test_the_final_level_is_the_mean_of_the_last_three():
    assert final_level([line(0.01), line(0.02)]) == pytest.approx((0.09 + 0.18) / 2)


def test_luck_that_a_seed_gives_to_both_does_not_widen_the_interval():
    luck = [0.0, 0.03, -0.02, 0.05, -0.01]
    base, other = (seeds(*[line(slope + extra) for extra in luck]) for slope in (0.05, 0.07))
    found = difference(base, other)
    assert (found.value, found.low, found.high) == pytest.approx((0.18, 0.18, 0.18))


@pytest.mark.parametrize("level", [0.95, 0.975])
def test_the_interval_of_a_difference_is_the_paired_t_interval(level):
    slopes = np.array([[0.05, 0.05, 0.06, 0.04, 0.05], [0.07, 0.09, 0.08, 0.05, 0.07]])
    base, other = (seeds(*[line(slope) for slope in row]) for row in slopes)
    theirs = stats.ttest_rel(9 * slopes[1], 9 * slopes[0])
    found = difference(base, other, level=level)
    low, high = theirs.confidence_interval(level)
    assert (found.value, found.low, found.high) == pytest.approx((9 * np.diff(slopes, axis=0).mean(), low, high))


def test_halves_of_many_seeds_are_a_sample_of_them():
    """The error of a mean of 20 by 1,000 halves has itself a relative error of 1/sqrt(2 * 1000): four of these."""
    values = np.random.default_rng(0).normal(size=20)
    found = half_width(lambda chosen: float(values[list(chosen)].mean()), range(20), level=0.95)
    assert found == pytest.approx(stats.t.ppf(0.975, 19) * stats.sem(values), rel=4 / math.sqrt(2000))


def test_fewer_than_five_pairs_have_no_interval():
    base, other = (seeds(*[line(slope + extra) for extra in (0.0, 0.02, 0.01, 0.03)]) for slope in (0.05, 0.07))
    for found in (difference(base, other), time_scale(base, other, "generated_tokens")):
        assert math.isnan(found.low)
        assert math.isnan(found.high)


def test_an_interval_is_that_of_leaving_out_two_of_five():
    """A median hardly moves until it jumps. Those of three of five: 0.9, 1.0 and 1.1, three, four and three times."""
    values = (0.0, 0.9, 1.0, 1.1, 2.0)
    found = jackknifed(lambda chosen: float(np.median([values[seed] for seed in chosen])), range(5))
    margin = stats.t.ppf(0.975, 4) * math.sqrt(3 / 2 * 0.006)
    assert (found.value, found.low, found.high) == pytest.approx((1.0, 1.0 - margin, 1.0 + margin))


def saturating(generator, scale, luck, *, noise=0.018, num_points=12):
    """A curve like those of the field: it flattens, its seed has luck, an evaluation has the noise of 512 responses."""
    share = np.arange(num_points + 1) / num_points
    height, scale = 0.16 + generator.normal(0, 0.02), scale * math.exp(generator.normal(0, 0.15))
    rates = 0.22 + luck + height * (1 - np.exp(-share / scale)) + generator.normal(0, noise, num_points + 1)
    return curve(480.0 * share, rates)


@pytest.mark.long
@pytest.mark.parametrize(("scale", "truth"), [(0.42, 1.0), (0.25, 0.42 / 0.25)])
def test_an_interval_of_a_factor_covers_nearly_as_often_as_it_says(scale, truth):
    """Five noisy seeds, 95 % in name."""
    generator = np.random.default_rng(0)
    num_covered, number = 0, 100
    for _ in range(number):
        luck = generator.normal(0, 0.02, 5)
        base, other = (seeds(*[saturating(generator, each, luck[seed]) for seed in range(5)]) for each in (0.42, scale))
        found = time_scale(base, other, "generated_tokens")
        num_covered += found.low <= truth <= found.high
    assert abs(num_covered / number - 0.95) < 3 * math.sqrt(0.95 * 0.05 / number)


@pytest.mark.parametrize("speed", [0.5, 1.0, 1.7, 3.0])
def test_a_run_that_is_faster_all_along_has_its_speed_for_a_factor(speed):
    tokens = np.linspace(0.0, 480.0, 400)
    assert best_factor(tokens, rate(tokens), tokens, rate(speed * tokens)) == pytest.approx(speed, rel=1e-3)
    found = time_scale({0: run(1.0)}, {0: run(speed)}, "seconds")
    assert found.value == pytest.approx(speed, rel=0.01)  # straight lines between points of a bent curve


def test_a_comparator_that_is_a_little_higher_moves_the_factor_little():
    lifted, plain, other = {0: run(1.0, lift=0.01)}, {0: run(1.0)}, {0: run(1.7)}
    change = time_scale(plain, other, "generated_tokens").value / time_scale(lifted, other, "generated_tokens").value
    assert 1 < change < 1.2


def test_the_factor_of_paired_seeds_has_no_interval_where_both_have_the_same_luck():
    both = {seed: run(1.0, lift=0.02 * seed) for seed in range(5)}
    found = time_scale(both, dict(both), "generated_tokens")
    near_one = pytest.approx(1, abs=1e-3)  # the search for the factor ends within 1e-5
    assert (found.low, found.value, found.high) == (near_one, near_one, near_one)


def test_only_seeds_that_both_have_are_compared():
    base, other = seeds(line(0.05), line(0.01)), {0: line(0.1), 7: line(0.9)}
    assert common_seeds(base, other) == [0]
    found = difference(base, other)
    assert found.value == pytest.approx(0.45)
    assert math.isnan(found.low)  # a single seed
    with pytest.raises(ValueError, match="no seed in common"):
        common_seeds({0: line(0.1)}, {1: line(0.1)})


def test_methods_stand_by_one_comparator_for_each_cost_and_by_the_best_grpo():
    found = {
        "grpo_n4": seeds(run(1.0), run(1.0)),
        "grpo_n4_4_updates": seeds(run(0.5), run(0.5)),
        "grpo_n8": seeds(run(1.0, lift=0.02), run(1.0, lift=0.04)),
        "ada": seeds(run(2.0), run(2.0, lift=0.01)),
    }
    first, *_, last = comparison(found)
    assert (first.method, first.num_seeds, last.method) == ("ada", 2, "grpo_n4_4_updates")
    assert first.lowest < first.level < first.highest
    assert first.scales["generated_tokens"].value == pytest.approx(2, rel=0.2)
    assert first.scales["seconds"].value == pytest.approx(4, rel=0.2)
    gains = [final_level([found["ada"][seed]]) - final_level([found["grpo_n8"][seed]]) for seed in (0, 1)]
    assert first.gain.value == pytest.approx(np.mean(gains))


def test_bands_leave_out_what_a_seed_gives_to_all_methods():
    luck = {0: 0.0, 1: 0.3, 2: -0.2}
    found = {
        method: {seed: curve(10.0 * np.arange(11), slope * np.arange(11) + extra) for seed, extra in luck.items()}
        for method, slope in (("grpo_n4", 0.05), ("ada", 0.08))
    }
    taken_off = seed_luck(found)
    mean = np.mean(list(luck.values()))
    assert all(taken_off[seed] == pytest.approx(extra - mean) for seed, extra in luck.items())


@pytest.fixture
def drawn(monkeypatch):
    """Figures in the place of files."""
    figures = []
    monkeypatch.setattr(plotting, "save", lambda figure, *_: figures.append(figure))
    return figures


def test_each_panel_says_which_grpo_it_compares_with_and_cuts_off_slower_curves(drawn, tmp_path):
    found = {
        "grpo_n4": seeds(*[line(slope, seconds_per_token=1.0) for slope in (0.02, 0.03)]),
        "grpo_n4_4_updates": seeds(line(0.02), line(0.03)),
        "ada": seeds(line(0.03), line(0.04)),
        "vip": seeds(line(0.01), line(0.02)),
    }
    comparator = {"generated_tokens": "grpo_n4", "seconds": "grpo_n4_4_updates"}
    shown = ("grpo_n4", "grpo_n4_4_updates", "ada")
    plot(found, tmp_path / "p.png", Picture("a model, 2 seeds", "a rate", shown, tuple(comparator), comparator))
    (figure,) = drawn
    by_tokens, by_seconds = figure.axes
    named = [[text.get_text() for text in panel.get_legend().get_texts()] for panel in (by_tokens, by_seconds)]
    assert named[0] == ["compared with: grpo_n4", "ada", "grpo_n4, 4 updates"]
    assert named[1] == ["compared with: grpo_n4, 4 updates", "ada", "grpo_n4"]
    assert by_seconds.get_xlim()[1] < 100 == max(max(row.get_xdata()) for row in by_seconds.lines)
    assert figure.get_suptitle() == "a model, 2 seeds"


def test_the_picture_of_a_factor_lays_one_curve_on_the_other(drawn, tmp_path):
    base, other = {0: run(1.0)}, {0: run(2.0)}
    words = {"names": ("a", "b"), "rate": "a rate", "title": "a model"}
    plot_factor(base, other, "generated_tokens", tmp_path / "p.png", **words)
    *_, right = drawn[0].axes
    plain, _, stretched = right.lines
    at = stretched.get_xdata()[stretched.get_xdata() <= plain.get_xdata()[-1]]
    wanted = np.interp(at, plain.get_xdata(), plain.get_ydata())
    assert stretched.get_ydata()[: len(at)] == pytest.approx(wanted, abs=2e-3)
