"""Knapsack RL by hand, kind by kind, and against a dynamic programme."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ada_lightning.core.records import Belief
from ada_lightning.methods.published.knapsack import KnapsackSampler
from tests.unit.methods.sampling.planning import GOLDEN, UNKNOWN, planned, seen

FEW = Belief(1.0, 8.0, 7.0, 0.0)
PREDICTED = [Belief(8 * p, 8 * (1 - p)) for p in GOLDEN]


def knapsack(**settings):
    return KnapsackSampler(**{"responses_per_prompt": 8} | settings)


def value(p, n):
    return (1 - p**n - (1 - p) ** n) * p * (1 - p) ** 2


def best_division(rates, total, n_min, n_max):
    """Dynamic programme of the public code in our words, without its slip: there, giving nothing is worth 0."""
    best = np.full(total + 1, -np.inf)
    best[0] = 0.0
    for p in rates:
        after = np.full(total + 1, -np.inf)
        for budget in range(total + 1):
            for k in range(min(n_max - n_min, budget) + 1):
                after[budget] = max(after[budget], best[budget - k] + value(p, n_min + k))
        best = after
    return float(best[total])


def test_the_division_is_worth_as_much_as_the_best_one():
    generator = np.random.default_rng(1)
    for _ in range(40):
        rates = generator.uniform(0.01, 0.99, 5).tolist()
        sampler = knapsack(responses_per_prompt=4, n_max=20, group_size=20, mixed_chance=1 - 1e-9)
        counts = sampler.divide([seen(p) for p in rates], 20)
        best = best_division(rates, 20 - 2 * 5, 2, 20)
        assert math.fsum(map(value, rates, counts)) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize(
    ("beliefs", "options", "expected"),
    [
        ([seen(p) for p in (0.93, 0.3, 0.4)], {}, [2, 13, 9]),
        ([FEW, FEW], {}, [8, 8]),  # not known yet: the mean
        ([FEW, seen(0.01)], {}, [8, 8]),
        ([FEW, seen(0.01)], {"min_seen": 7, "n_max": 12, "group_size": 12}, [4, 12]),
        (PREDICTED, {}, [8] * 6),
        (PREDICTED, {"min_seen": 0}, [2, 17, 12, 7, 8, 2]),
        # At p = 1/2 a group is mixed with 90 % after ln 0.1 / ln 0.5 = 3.3 responses, so 3 are demanded:
        # 32 - 8 = 24 left, 3 demanded, 21 surplus, 11 and 10 to those that never passed
        ([seen(0.0), seen(0.5), seen(0.0), seen(1.0)], {}, [13, 5, 12, 2]),
        # unknown ones share it, as in the code: 32 - 8 - 6 = 18 left, 15 surplus, evenly on top of 8 and 2
        ([UNKNOWN, seen(0.5), seen(0.0), seen(1.0)], {}, [16, 5, 9, 2]),
        # without hopeless prompts solved ones: 24 - 6 = 18, 3 demanded
        ([seen(1.0), seen(0.5), seen(1.0)], {}, [10, 5, 9]),
        ([seen(0.5)] * 3, {}, [8, 8, 8]),  # the code divides by zero here
        ([seen(1.0), seen(0.0), seen(1.0)], {}, [2, 20, 2]),
        # what has no room goes on to whoever has
        ([seen(0.0), seen(0.5), seen(1.0), seen(1.0)], {"n_max": 10, "group_size": 10}, [10, 10, 6, 6]),
    ],
)
def test_plans_by_hand(beliefs, options, expected):
    assert planned(knapsack(**options), beliefs) == expected
