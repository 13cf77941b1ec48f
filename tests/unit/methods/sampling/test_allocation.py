from __future__ import annotations

import itertools
import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ada_lightning.methods.sampling.allocation import allocate

WEIGHTS = st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1e6)), min_size=1, max_size=12)


@st.composite
def problems(draw, weights=WEIGHTS):
    """Weights, and a total that the bounds allow."""
    drawn = draw(weights)
    lower = draw(st.integers(0, 5))
    upper = draw(st.integers(lower, lower + 20))
    return drawn, draw(st.integers(len(drawn) * lower, len(drawn) * upper)), lower, upper


def clipped_proportional(weights, total, lower, upper):
    """The real-valued solution, by bisection on the scale; weights are positive."""
    low, high = 0.0, (upper + 1) / min(weights)
    for _ in range(300):
        scale = (low + high) / 2
        spent = math.fsum(min(max(scale * weight, lower), upper) for weight in weights)
        low, high = (scale, high) if spent < total else (low, scale)
    return [min(max(high * weight, lower), upper) for weight in weights]


@given(problems())
def test_the_total_is_exact_and_no_bound_is_broken(problem):
    weights, total, lower, upper = problem
    counts = allocate(*problem)
    assert sum(counts) == total
    assert all(lower <= count <= upper for count in counts)
    assert len(counts) == len(weights)


@given(problems())
def test_a_larger_weight_never_gets_less_and_equal_weights_differ_by_one_at_most(problem):
    ordered = sorted(zip(problem[0], allocate(*problem), strict=True))
    for (lighter, fewer), (heavier, more) in pairwise(ordered):
        assert more >= fewer
        assert more - fewer <= 1 or lighter < heavier


@given(
    problems(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12, unique=True)), st.randoms(), st.integers(-20, 20)
)
def test_neither_the_order_of_different_weights_matters_nor_their_scale(problem, generator, exponent):
    weights, *limits = problem
    order = list(range(len(weights)))
    generator.shuffle(order)
    counts = allocate(weights, *limits)
    moved = allocate([weights[index] * 2.0**exponent for index in order], *limits)  # a power of two rounds nothing
    assert moved == [counts[index] for index in order]


@given(problems(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12)))
def test_counts_are_the_clipped_proportional_shares_up_to_less_than_one(problem):
    shares = clipped_proportional(*problem)
    for share, count in zip(shares, allocate(*problem), strict=True):
        assert abs(share - count) < 1 + 1e-6  # bisection of a float


def test_largest_remainders_are_the_nearest_whole_division():
    """Of all whole divisions the one nearest to the real-valued one, by the sum of squares, unless two tie."""
    generator = random.Random(0)
    num_compared = 0
    for _ in range(300):
        weights = [generator.choice([0.1, 0.5, 1.0, 3.0]) * generator.random() for _ in range(4)]
        lower, upper = generator.choice([(0, 5), (1, 4), (2, 6), (1, 1)])
        total = generator.randint(4 * lower, 4 * upper)
        shares = clipped_proportional(weights, total, lower, upper)
        cost = {
            counts: math.dist(shares, counts) ** 2
            for counts in itertools.product(range(lower, upper + 1), repeat=4)
            if sum(counts) == total
        }
        nearest = [list(counts) for counts, value in cost.items() if value < min(cost.values()) + 1e-9]
        if len(nearest) == 1:
            num_compared += 1
            assert allocate(weights, total, lower, upper) == nearest[0]
    assert num_compared > 250


@pytest.mark.parametrize(
    ("weights", "limits", "expected"),
    [
        ([1.0, 1.0, 1.0, 1.0], (32, 2, 32), [8, 8, 8, 8]),
        ([1.0, 2.0, 3.0], (12, 1, 32), [2, 4, 6]),
        ([100.0, 1.0, 1.0], (12, 2, 6), [6, 3, 3]),  # both bounds decide: 6 is all the first may have
        ([100.0, 1.0, 1.0], (12, 2, 32), [8, 2, 2]),  # the lower bound of two leaves 8
        ([1.0, 1.0, 1.0], (8, 1, 8), [3, 3, 2]),  # equal remainders: the earlier ones
        ([1.0, 3.0], (6, 1, 32), [1, 5]),  # 1.5 and 4.5: the larger weight
        ([2.0, 1.0], (1, 0, 4), [1, 0]),
        ([0.0, 0.0, 0.0], (7, 1, 4), [3, 2, 2]),  # all 0: uniform
        ([1.0, 0.0, 0.0], (6, 1, 4), [4, 1, 1]),  # zeros get the lower bound ...
        ([1.0, 0.0, 0.0], (9, 1, 4), [4, 3, 2]),  # ... until all others have the upper
        ([5e-324, 1e308], (10, 0, 8), [2, 8]),
        ([3.0], (5, 5, 5), [5]),
        ([], (0, 1, 4), []),
    ],
)
def test_cases_by_hand(weights, limits, expected):
    assert allocate(weights, *limits) == expected


@pytest.mark.parametrize(
    ("weights", "limits", "message"),
    [
        ([1.0, 1.0], (3, 2, 8), r"total = 3 is less than 2 prompts x lower = 2: use a total of 4 or a smaller lower"),
        ([1.0, 1.0], (17, 2, 8), r"total = 17 is more than 2 prompts x upper = 8: use a total of 16 or a larger upper"),
        ([1.0, math.nan], (8, 2, 8), r"weights must be finite and not negative; got nan at position 1"),
        ([math.inf, 1.0], (8, 2, 8), r"got inf at position 0"),
        ([1.0, -0.5], (8, 2, 8), r"got -0.5 at position 1"),
        ([1.0], (4, 6, 5), r"lower = 6 exceeds upper = 5; swap them or raise upper"),
        ([1.0], (4, -1, 5), r"lower must not be negative; got -1"),
        ([math.nan, 1.0], (1, 2, 8), r"got nan at position 0; total = 1 is less than"),
    ],
)
def test_what_cannot_be_divided_is_refused(weights, limits, message):
    with pytest.raises(ValueError, match=message):
        allocate(weights, *limits)
