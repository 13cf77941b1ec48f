"""VIP beside the paper: its multiplier, its rounding, the variance itself, and the public code's two settings."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ada_lightning.core.records import Belief
from ada_lightning.methods.advantages import GroupNormalizedAdvantage, LeaveOneOutAdvantage
from ada_lightning.methods.published.vip import DrGrpoVariance, RlooVariance, VipSampler
from tests.builders import assigned, make_group
from tests.unit.methods.sampling.planning import planned, seen

RLOO, DR_GRPO = RlooVariance(), DrGrpoVariance()
VARIANCES = [RLOO, DR_GRPO]


def vip(variance=RLOO, **settings):
    return VipSampler(**{"responses_per_prompt": 8, "variance": variance, "n_min": 3} | settings)


def objective(variance, rates, counts):
    return math.fsum(p * (1 - p) * variance(n) for p, n in zip(rates, counts, strict=True))


def slope(variance, n):
    """Minus the derivative by n, written out once more: (n-2)/n^3 and 1/(n-1)^2."""
    return 1 / (n - 1) ** 2 if variance is RLOO else (n - 2) / n**3


def kkt(variance, rates, total, lower, upper):
    """Theorems 5.1 and 5.2: the real-valued solution by bisection on the multiplier."""
    spreads = [p * (1 - p) for p in rates]

    def response_to(multiplier):
        counts = []
        for spread in spreads:
            low, high = float(lower), float(upper)
            for _ in range(100):  # the slope falls with n
                middle = (low + high) / 2
                low, high = (middle, high) if spread * slope(variance, middle) > multiplier else (low, middle)
            counts.append(low)
        return counts

    low, high = 1e-12, max(spreads)
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if sum(response_to(middle)) > total else (low, middle)
    return response_to(high)


def floor_and_greedy(variance, rates, total, lower, upper):
    """Algorithm 2: round the real-valued solution down, then add where the variance falls most."""
    counts = [max(lower, math.floor(n + 1e-9)) for n in kkt(variance, rates, total, lower, upper)]
    while sum(counts) < total:
        falls = [
            p * (1 - p) * (variance(n) - variance(n + 1)) if n < upper else -1.0
            for p, n in zip(rates, counts, strict=True)
        ]
        counts[int(np.argmax(falls))] += 1
    return counts


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_multiplier_of_the_paper_bounds_it_and_its_rounding_gives_the_same(variance):
    generator = np.random.default_rng(1)
    for _ in range(25):
        rates = generator.uniform(0.02, 0.98, 7).tolist()
        total = 7 * int(generator.integers(4, 14))
        counts = vip(variance, n_max=16, group_size=16).divide([seen(p) for p in rates], total)
        relaxed = kkt(variance, rates, total, 3, 16)
        assert sum(relaxed) == pytest.approx(total, abs=1e-6)
        assert objective(variance, rates, relaxed) <= objective(variance, rates, counts) + 1e-9
        assert counts == floor_and_greedy(variance, rates, total, 3, 16)
        assert max(abs(n - m) for n, m in zip(counts, relaxed, strict=True)) < 1 + 1e-6


@pytest.mark.parametrize(
    ("variance", "advantage"),
    [(RLOO, LeaveOneOutAdvantage()), (DR_GRPO, GroupNormalizedAdvantage(normalize_std=False))],
)
@pytest.mark.parametrize(("size", "rate"), [(3, 0.2), (8, 0.5)])
def test_variance_is_that_of_the_advantage_by_simulation(variance, advantage, size, rate):
    """The mean over n responses of advantage times an independent score of variance 1, rewards of 0 and 1."""
    generator = np.random.default_rng(2)
    num_groups = 200_000
    rewards = (generator.random((num_groups, size)) < rate).astype(float)
    # The package's own advantages of a group with so many positives: they depend on the counts alone.
    by_count = np.zeros((size + 1, 2))
    for num_positive in range(1, size):
        group = make_group([1.0] * num_positive + [0.0] * (size - num_positive))
        advantages = assigned(advantage, group).tolist()
        by_count[num_positive] = advantages[-1], advantages[0]
    advantages = by_count[rewards.sum(1).astype(int)[:, None], rewards.astype(int)]
    estimates = (advantages * generator.standard_normal((num_groups, size))).mean(1)
    spread = (estimates**2).std() / math.sqrt(num_groups)  # the estimate's mean is 0
    assert (estimates**2).mean() == pytest.approx(rate * (1 - rate) * variance(size), abs=5 * spread)


@pytest.mark.parametrize("variance", VARIANCES)
def test_gains_are_differences_of_the_variance(variance):
    for n in range(variance.fewest, 40):
        assert variance.gain(n) == pytest.approx(variance(n) - variance(n + 1), rel=1e-12)


def test_predictions_of_0_and_1_get_the_lower_bound_and_a_step_of_them_is_divided_evenly():
    certain = [Belief(1e-12, 8.0), Belief(8.0, 1e-12)]
    assert planned(vip(), [certain[0], certain[1], seen(0.5), seen(0.5)]) == [3, 3, 13, 13]
    assert planned(vip(), certain[:1] * 5) == [8] * 5
