"""PODS: against brute force over all subsets, golden values, ties."""

from __future__ import annotations

import random
from itertools import combinations
from statistics import pvariance

import pytest

from ada_lightning.methods.published.pods import MaxVarianceSelection, best_num_highest
from ada_lightning.methods.selection import BalancedSelection
from tests.builders import make_pool


def kept_rewards(rewards, group_size):
    return [kept.response.reward for kept in MaxVarianceSelection(group_size=group_size).select(make_pool(rewards))]


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([0, 0, 0, 0, 0, 0, 1, 1], [1, 1, 0, 0]),
        ([0, 0.1, 0.2, 0.5, 0.9, 0.95, 1, 0.3], [1, 0.95, 0.1, 0]),
        ([0, 0, 0, 0, 0, 0, 0, 1], [1, 0, 0, 0]),
        ([1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 0]),
        ([0.5] * 8, [0.5] * 4),
        ([1, 0, 1], [1, 1, 0]),
        ([], []),
    ],
)
def test_golden_values(rewards, expected):
    """Reference section 17 for m = 4, and pools that are small, equal or empty."""
    assert kept_rewards(rewards, 4) == expected


@pytest.mark.parametrize("kind", ["binary", "few values", "real", "negative", "large offset"])
def test_no_subset_has_a_larger_variance(kind):
    generator = random.Random(kind)
    draw = {
        "binary": lambda: float(generator.random() < 0.3),
        "few values": lambda: generator.choice([0.0, 0.25, 0.5, 1.0]),
        "real": generator.random,
        "negative": lambda: generator.gauss(-1.0, 2.0),
        "large offset": lambda: 1e6 + generator.random(),
    }[kind]
    for _ in range(60):
        size = generator.randrange(3, 10)
        group_size = generator.randrange(2, size)
        rewards = [draw() for _ in range(size)]
        best = max(pvariance(subset) for subset in combinations(rewards, group_size))
        assert pvariance(kept_rewards(rewards, group_size)) == pytest.approx(best, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "rewards", [[0.0] * 6 + [1.0] * 2, [0.0] * 7 + [1.0], [1.0] * 7 + [0.0], [0.0] * 5 + [1.0] * 5]
)
def test_binary_rewards_are_what_balanced_selection_keeps(rewards):
    generator = random.Random(0)
    for _ in range(5):
        generator.shuffle(rewards)
        pool = make_pool(rewards)
        chosen = [rule(group_size=4).select(pool) for rule in (MaxVarianceSelection, BalancedSelection)]
        assert chosen[0] == chosen[1]


def test_of_equal_rewards_the_first_generated_and_of_equal_splits_the_one_with_fewer_high_ones():
    kept = MaxVarianceSelection(group_size=3).select(make_pool([1.0, 0.0, 1.0, 0.0, 1.0, 0.0]))
    assert [k.response.sample_index for k in kept] == [0, 1, 3]


def test_a_tie_is_a_tie_whatever_rounding_makes_of_the_sums():
    """0.1 apart from 0.3 or 0.5 alike: the exact variances of i = 1 and i = 2 are equal."""
    assert best_num_highest([0.7, 0.7, 0.7, 0.1, 0.1, 0.1], 3) == 1
    assert best_num_highest([10.7, 10.7, 10.7, 10.1, 10.1, 10.1], 3) == 1
