import math

import numpy as np
import pytest

from studies.field.compare import best_grpo, comparison
from studies.field.reach import advantage_over, cost_to_reach, final_level, mean_curve


def curve(*points, end=None):
    return [{"generated_tokens": float(tokens), "seconds": tokens / 10, "avg_at_4": rate} for tokens, rate in points]


def line(slope, noise=0.0):
    return curve(*((tokens, slope * tokens + noise * (-1) ** tokens) for tokens in range(0, 101, 10)))


def test_the_grid_ends_where_the_shortest_run_does():
    grid, rates = mean_curve([line(0.01), line(0.01)[:6]], "generated_tokens")
    assert (grid[0], grid[-1]) == (0.0, 50.0)
    assert rates[0] == pytest.approx(0.01 * grid)
    assert rates.shape == (2, len(grid))


def test_the_first_crossing_counts():
    grid = np.array([0.0, 10.0, 20.0, 30.0])
    assert cost_to_reach(grid, np.array([0.0, 0.4, 0.2, 0.6]), 0.2) == 5.0
    assert cost_to_reach(grid, np.array([0.3, 0.4, 0.2, 0.6]), 0.2) == 0.0
    assert cost_to_reach(grid, np.array([0.0, 0.1, 0.1, 0.1]), 0.2) == math.inf


def test_the_final_level_is_the_mean_of_the_last_three():
    assert final_level([line(0.01), line(0.02)]) == pytest.approx((0.9 + 1.8) / 2)


def test_twice_as_steep_is_twice_as_cheap():
    found = advantage_over([line(0.005)] * 3, [line(0.01)] * 3, "generated_tokens")
    assert found.value == pytest.approx(2.0, rel=1e-3)
    assert (found.low, found.high) == (found.value, found.value)
    assert advantage_over([line(0.005)], [line(0.01)], "seconds").value == pytest.approx(2.0, rel=1e-3)


def test_who_never_arrives_gets_nothing():
    assert advantage_over([line(0.01)], [line(0.005)], "generated_tokens").value == 0.0


def test_the_interval_covers_what_other_runs_would_give():
    base = [line(slope) for slope in (0.004, 0.005, 0.006)]
    other = [line(slope) for slope in (0.008, 0.01, 0.012)]
    found = advantage_over(base, other, "generated_tokens")
    assert found.low < found.value < found.high
    assert found.low >= 8 / 6 - 0.01
    assert found.high <= 12 / 4 + 0.01


def with_all_costs(slope):
    return [row | {"trained_tokens": row["generated_tokens"], "updates": row["seconds"]} for row in line(slope)]


def test_methods_stand_by_their_level_beside_the_best_grpo():
    found = {
        "grpo_n4": [with_all_costs(0.004)] * 2,
        "grpo_n8": [with_all_costs(0.005)] * 2,
        "ada": [with_all_costs(0.009), with_all_costs(0.011)],
    }
    assert best_grpo(found) == "grpo_n8"
    first, second, last = comparison(found)
    assert (first.method, first.num_seeds, second.method, last.method) == ("ada", 2, "grpo_n8", "grpo_n4")
    assert first.lowest < first.level < first.highest
    assert first.savings["updates"].value == pytest.approx(2.0, rel=1e-3)
    assert second.savings["seconds"].value == 1.0
    assert last.savings["seconds"].value == 0.0


def test_without_grpo_there_is_nothing_to_compare_with():
    with pytest.raises(ValueError, match="no run of grpo_n4, grpo_n8, grpo_n16 is done"):
        best_grpo({"ada": [with_all_costs(0.01)]})
