import math

import numpy as np
import pytest
from scipy import stats

from research.studies.field import reach
from research.studies.field.curves_plot import seed_luck
from research.studies.field.reach import (
    Estimate,
    common_seeds,
    cost_to_reach,
    difference,
    final_level,
    level_after,
    mean_curve,
    saving,
)
from research.studies.field.standing import best_grpo, comparison, milestones


def line(slope, *, seconds_per_token=0.1, num_points=11):
    """Rises by a straight line; ends at 10 * slope."""
    return [
        {
            "generated_tokens": 10.0 * point,
            "trained_tokens": 10.0 * point,
            "seconds": 10.0 * point * seconds_per_token,
            "updates": float(point),
            "avg_at_4": slope * point,
        }
        for point in range(num_points)
    ]


def seeds(*curves):
    return dict(enumerate(curves))


def test_costs_are_those_at_equal_numbers_of_tokens():
    slow, fast = line(0.1, seconds_per_token=0.3), line(0.2, seconds_per_token=0.1)
    costs, rates = mean_curve([slow, fast], "seconds")
    assert (costs[0], costs[-1]) == pytest.approx((0.0, 100 * 0.2))  # the mean of both, whatever either took
    assert rates[:, -1] == pytest.approx([1.0, 2.0])
    costs, rates = mean_curve([slow, fast[:6]], "generated_tokens")
    assert costs[-1] == 50.0


def test_the_first_crossing_of_the_curve_without_its_ups_and_downs_counts():
    grid = np.array([0.0, 10.0, 20.0, 30.0])
    assert cost_to_reach(grid, np.array([0.0, 0.4, 0.5, 0.6]), 0.2) == 5.0
    assert cost_to_reach(grid, np.array([0.3, 0.4, 0.5, 0.6]), 0.2) == 0.0
    peak = np.array([0.0, 0.8, 0.2, 0.6])  # 0, 0.5, 0.5, 0.6 where nothing may fall
    assert cost_to_reach(grid, peak, 0.55) == pytest.approx(25.0)
    assert cost_to_reach(grid, np.array([0.0, 0.1, 0.1, 0.1]), 0.2) == math.inf


def test_the_final_level_is_the_mean_of_the_last_three():
    assert final_level([line(0.01), line(0.02)]) == pytest.approx((0.09 + 0.18) / 2)


def test_twice_as_steep_is_twice_as_cheap():
    base, other = seeds(*[line(0.05)] * 3), seeds(*[line(0.1)] * 3)
    found = saving([base], other, "generated_tokens")
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0), rel=1e-6)
    assert not found.is_bound
    quick = seeds(*[line(0.1, seconds_per_token=0.05)] * 3)
    assert saving([base], quick, "seconds").value == pytest.approx(4.0, rel=1e-6)


def test_who_never_arrives_gets_a_bound():
    found = saving([seeds(line(0.1))], seeds(line(0.05)), "generated_tokens")
    assert found.is_bound
    assert found.value == pytest.approx(0.9)  # 90 tokens to the mean of the last three, of 100 spent in vain
    assert math.isnan(found.low)


def test_an_interval_is_open_below_where_it_takes_one_seed_to_get_there():
    base = seeds(line(0.1), line(0.1))
    found = saving([base], seeds(line(0.3), line(0.05)), "generated_tokens")
    assert not found.is_bound
    assert found.low == 0.0


def test_each_cost_has_the_base_that_is_best_at_it():
    """One ends higher, the other is quicker: both set the bar where they are best."""
    thorough, quick = seeds(line(0.1, seconds_per_token=1.0)), seeds(line(0.1, seconds_per_token=0.1))
    other = seeds(line(0.2, seconds_per_token=0.1))
    assert saving([thorough, quick], other, "seconds").value == pytest.approx(2.0)
    assert saving([thorough], other, "seconds").value == pytest.approx(20.0)
    low = seeds(line(0.05, seconds_per_token=0.01))  # quick, but never at the level of the other base
    assert saving([thorough, low], other, "seconds").value == pytest.approx(20.0)


def test_a_level_on_the_way_is_that_of_three_evaluations_around_it():
    assert level_after([line(0.01)], 0.5) == pytest.approx(0.05)
    assert level_after([line(0.01)], 0.25) == pytest.approx(0.02)  # evaluations 1, 2, 3 of 10
    assert level_after([line(0.01)[:2]], 0.5) == pytest.approx(0.005)  # as many as there are


def test_milestones_are_where_the_best_grpo_is_by_then():
    found = {"grpo_n4": seeds(line(0.05)), "grpo_n8": seeds(line(0.1)), "ada": seeds(line(0.2))}
    marks = milestones(found)
    assert [mark.level for mark in marks] == pytest.approx([0.2, 0.5, 0.9])
    assert [mark.savings["ada"]["generated_tokens"].value for mark in marks] == pytest.approx([2.0, 2.0, 2.0])
    assert [mark.share for mark in marks] == [0.2, 0.5, 1.0]  # ten evaluations: none is after a quarter
    late = [mark.savings["grpo_n4"]["seconds"] for mark in marks]
    assert late[0].value == pytest.approx(0.5)
    assert late[1].value == pytest.approx(0.5)  # it ends where the other is by then
    assert late[2].is_bound


def test_luck_that_a_seed_gives_to_both_does_not_widen_the_interval():
    luck = [0.0, 0.03, -0.02, 0.05]
    base = seeds(*[line(0.05 + extra) for extra in luck])
    other = seeds(*[line(0.07 + extra) for extra in luck])
    found = difference(base, other)
    assert (found.value, found.low, found.high) == pytest.approx((0.18, 0.18, 0.18))


def test_the_interval_of_a_difference_is_the_paired_t_interval():
    slopes = np.array([[0.05, 0.05, 0.06], [0.07, 0.09, 0.08]])
    base, other = (seeds(*[line(slope) for slope in row]) for row in slopes)
    gains = 9 * (slopes[1] - slopes[0])
    low, high = stats.t.interval(0.95, 2, loc=gains.mean(), scale=stats.sem(gains))
    found = difference(base, other)
    assert (found.value, found.low, found.high) == pytest.approx((gains.mean(), low, high))


def saturating(generator, time_scale, luck, *, start=0.22, rise=0.16, noise=0.018, num_points=12):
    """A curve like those of the field: it flattens, its seed has luck, an evaluation has the noise of 512 responses."""
    share = np.arange(num_points + 1) / num_points
    height, scale = rise + generator.normal(0, 0.02), time_scale * math.exp(generator.normal(0, 0.15))
    rates = start + luck + height * (1 - np.exp(-share / scale)) + generator.normal(0, noise, num_points + 1)
    return [{"generated_tokens": 480.0 * x, "avg_at_4": rate} for x, rate in zip(share, rates, strict=True)]


def test_an_interval_is_that_of_leaving_out_two_of_five():
    """A median hardly moves until it jumps. Those of three of five: 0.9, 1.0 and 1.1, three, four and three times."""
    values = (0.0, 0.9, 1.0, 1.1, 2.0)
    found = reach.jackknifed(lambda chosen: (float(np.median([values[seed] for seed in chosen])), False), range(5))
    margin = stats.t.ppf(0.975, 4) * math.sqrt(3 / 2 * 0.006)
    assert (found.value, found.low, found.high) == pytest.approx((1.0, 1.0 - margin, 1.0 + margin))


@pytest.mark.parametrize(
    ("time_scale", "share", "truth", "covered"),
    [(0.25, 0.5, 1.66, 0.92), (0.42, 0.5, 1.0, 0.95), (0.25, 1.0, 1.67, 0.89), (0.42, 1.0, 1.0, 0.94)],
)
def test_an_interval_covers_nearly_as_often_as_it_says(time_scale, share, truth, covered):
    """On noisy curves of five seeds, at half of the run and at its end; the nominal share is 95 %."""
    generator = np.random.default_rng(0)
    num_covered, number = 0, 200
    for _ in range(number):
        luck = generator.normal(0, 0.02, 5)
        base, other = (
            seeds(*[saturating(generator, scale, luck[seed]) for seed in range(5)]) for scale in (0.42, time_scale)
        )
        found = saving([base], other, "generated_tokens", share=share)
        num_covered += found.low <= truth <= found.high
    error = math.sqrt(covered * (1 - covered) / number)
    assert abs(num_covered / number - covered) < 3 * error


def test_only_seeds_that_both_have_are_compared():
    base, other = seeds(line(0.05), line(0.01)), {0: line(0.1), 7: line(0.9)}
    assert common_seeds(base, other) == [0]
    assert difference(base, other).value == pytest.approx(0.45)
    with pytest.raises(ValueError, match="no seed in common"):
        common_seeds({0: line(0.1)}, {1: line(0.1)})


def test_methods_stand_by_their_level_beside_the_best_grpo():
    found = {
        "grpo_n4": seeds(line(0.04), line(0.04)),
        "grpo_n8": seeds(line(0.05), line(0.05)),
        "ada": seeds(line(0.09), line(0.11)),
    }
    assert best_grpo(found) == "grpo_n8"
    first, second, last = comparison(found)
    assert (first.method, first.num_seeds, second.method, last.method) == ("ada", 2, "grpo_n8", "grpo_n4")
    assert first.lowest < first.level < first.highest
    assert first.savings["seconds"].value == pytest.approx(2.0, rel=1e-3)
    assert first.gain.value == pytest.approx(0.45)
    assert second.savings["seconds"] == Estimate(1.0, 1.0, 1.0)
    assert last.savings["seconds"].is_bound


def test_bands_leave_out_what_a_seed_gives_to_all_methods():
    luck = {0: 0.0, 1: 0.3, 2: -0.2}
    found = {
        method: {
            seed: [{**row, "avg_at_4": row["avg_at_4"] + extra} for row in line(slope)] for seed, extra in luck.items()
        }
        for method, slope in (("grpo_n4", 0.05), ("ada", 0.08))
    }
    taken_off = seed_luck(found)
    mean = np.mean(list(luck.values()))
    assert all(taken_off[seed] == pytest.approx(extra - mean) for seed, extra in luck.items())


def test_without_grpo_there_is_nothing_to_compare_with():
    with pytest.raises(ValueError, match="no run of grpo_n4, grpo_n4_4_updates, grpo_n8, grpo_n16 is done"):
        best_grpo({"ada": seeds(line(0.01))})
