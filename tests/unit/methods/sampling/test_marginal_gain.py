from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ada_lightning.methods.sampling.marginal_gain import allocate_by_gain, spread_evenly


@st.composite
def problems(draw):
    """Falling gains by prompt, bounds of each, and a total within them."""
    num_prompts = draw(st.integers(1, 3))
    lower = draw(st.lists(st.integers(0, 4), min_size=num_prompts, max_size=num_prompts))
    upper = [low + draw(st.integers(0, 5)) for low in lower]
    tables = [
        sorted(draw(st.lists(st.floats(-5, 5), min_size=high - low, max_size=high - low)), reverse=True)
        for low, high in zip(lower, upper, strict=True)
    ]
    return tables, draw(st.integers(sum(lower), sum(upper))), lower, upper


def divide(problem):
    tables, total, lower, upper = problem
    return allocate_by_gain(lambda index, n: tables[index][n - lower[index]], total, lower, upper)


def value(problem, counts):
    tables, _, lower, _ = problem
    return math.fsum(
        gain for table, low, count in zip(tables, lower, counts, strict=True) for gain in table[: count - low]
    )


@given(problems())
def test_no_other_division_of_the_total_inside_the_bounds_is_worth_more(problem):
    _, total, lower, upper = problem
    counts = divide(problem)
    assert sum(counts) == total
    assert all(low <= count <= high for low, count, high in zip(lower, counts, upper, strict=True))
    ranges = (range(low, high + 1) for low, high in zip(lower, upper, strict=True))
    best = max(value(problem, other) for other in itertools.product(*ranges) if sum(other) == total)
    assert value(problem, counts) == pytest.approx(best, abs=1e-12)


def test_equal_gains_go_to_the_earlier_prompts():
    assert allocate_by_gain(lambda index, n: 1.0 / (n + 1), 11, [1, 1, 1], [9, 9, 9]) == [4, 4, 3]
    assert allocate_by_gain(lambda index, n: 0.0, 7, [1, 1, 1], [4, 4, 4]) == [4, 2, 1]


def test_nothing_can_be_divided_among_nobody():
    assert allocate_by_gain(lambda index, n: math.nan, 0, [], []) == []
    assert spread_evenly(3, [], [], 8) == 0


@pytest.mark.parametrize(
    ("surplus", "counts", "expected"),
    [
        (0, [6, 6, 1], [6, 6, 1]),
        (6, [6, 6, 1], [9, 9, 1]),
        (9, [6, 6, 1], [9, 9, 1]),  # the last one gets none whatever is left
        (5, [0, 8, 1], [4, 9, 1]),
        (7, [1, 0, 1], [5, 3, 1]),
    ],
)
def test_even_parts_end_where_there_is_no_room(surplus, counts, expected):
    before = sum(counts)
    assert spread_evenly(surplus, counts, [0, 1], 9) == sum(expected) - before
    assert counts == expected


@pytest.mark.parametrize(
    ("total", "lower", "upper", "message"),
    [
        (3, [2, 2], [8, 8], r"total = 3 is less than the lower bounds of 2 .*: use a total of 4 or smaller lower"),
        (17, [2, 2], [8, 8], r"total = 17 is more than the upper bounds of 2 .*: use a total of 16 or larger upper"),
        (4, [2, 2], [1, 8], r"bounds of prompt 0 must be 0 <= lower <= upper; got lower = 2, upper = 1"),
        (4, [2, -1], [4, 8], r"bounds of prompt 1 .* lower = -1, upper = 8"),
        (1, [2, 3], [8, 2], r"bounds of prompt 1 .*; total = 1 is less than"),
    ],
)
def test_what_cannot_be_divided_is_refused(total, lower, upper, message):
    with pytest.raises(ValueError, match=message):
        allocate_by_gain(lambda index, n: 1.0, total, lower, upper)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_gain_that_is_no_number_is_refused_with_its_prompt(wrong):
    with pytest.raises(ValueError, match=rf"the gain of prompt 1 at 2 responses is {wrong}; it must be finite"):
        allocate_by_gain(lambda index, n: wrong if index else 1.0, 5, [2, 2], [8, 8])


def test_a_gain_that_rises_is_refused():
    """Dr. GRPO's variance from 2 responses on: the third lowers it by less than the fourth."""
    with pytest.raises(ValueError, match=r"prompt 0 rises from 0\.027\d* to 0\.034\d* at 3 responses: .* lower bound"):
        allocate_by_gain(lambda index, n: (n * n - n - 1) / (n * (n + 1)) ** 2, 6, [2], [8])
