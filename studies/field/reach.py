"""What it costs to get somewhere: the price at which mean learning curves reach a level, and ratios with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Curve = Sequence[Mapping[str, float]]
"""Rows of :func:`studies.runs.cost_curve`."""
NUM_RESAMPLES = 1_000
_GRID = 400


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


def mean_curve(curves: Sequence[Curve], cost: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a grid of costs, as far as every run goes, and each run's held-out rate on it.

    Args:
        curves: of the runs of one method.
        cost: column to put on the horizontal axis.

    Returns:
        The grid, shape ``(G,)``, and rates by straight lines between evaluations, shape ``(R, G)``.
    """
    grid_G = np.linspace(0.0, min(curve[-1][cost] for curve in curves), _GRID)
    rates_RG = np.array(
        [np.interp(grid_G, [row[cost] for row in curve], [row["avg_at_4"] for row in curve]) for curve in curves]
    )
    return grid_G, rates_RG


def cost_to_reach(grid_G: NDArray[np.float64], rate_G: NDArray[np.float64], level: float) -> float:
    """Return the first cost at which a curve is at ``level``, ``inf`` where it never is.

    Example:
        >>> cost_to_reach(np.array([0.0, 10.0, 20.0]), np.array([0.0, 0.5, 0.4]), 0.25)
        5.0
    """
    above = np.flatnonzero(rate_G >= level)
    if len(above) == 0:
        return math.inf
    first = int(above[0])
    if first == 0:
        return float(grid_G[0])
    share = (level - rate_G[first - 1]) / (rate_G[first] - rate_G[first - 1])
    return float(grid_G[first - 1] + share * (grid_G[first] - grid_G[first - 1]))


def final_level(curves: Sequence[Curve]) -> float:
    """Return the mean held-out rate of the last three evaluations: a single one has the noise of 512 responses."""
    return float(np.mean([np.mean([row["avg_at_4"] for row in curve[-3:]]) for curve in curves]))


def advantage_over(base: Sequence[Curve], other: Sequence[Curve], cost: str, *, seed: int = 0) -> Estimate:
    """Return how many times less ``other`` spends than ``base`` to reach the final level of ``base``.

    Mean curves over runs are compared; the interval comes from drawing the runs of both anew (percentile bootstrap).

    Args:
        base: learning curves of the runs of the method to beat.
        other: those of the contestant.
        cost: what is spent, a column of the curves.
        seed: of the bootstrap.

    Returns:
        Cost of ``base`` over cost of ``other``: 2 means half the cost; 0 where ``other`` never gets there. Where the
        mean curve of ``base`` stays below the mean of its last evaluations, its whole cost counts.
    """
    levels_R = np.array([final_level([curve]) for curve in base])
    base_G, base_RG = mean_curve(base, cost)
    other_G, other_RG = mean_curve(other, cost)

    def ratio(chosen_base: NDArray[np.int64], chosen_other: NDArray[np.int64]) -> float:
        level = float(levels_R[chosen_base].mean())
        own = cost_to_reach(base_G, base_RG[chosen_base].mean(0), level)
        others = cost_to_reach(other_G, other_RG[chosen_other].mean(0), level)
        own = own if math.isfinite(own) else float(base_G[-1])
        return own / others if others > 0 else math.inf

    return _bootstrap(len(base), len(other), ratio, seed)


def difference(base: Sequence[Curve], other: Sequence[Curve], *, seed: int = 0) -> Estimate:
    """Return how much higher ``other`` ends than ``base``, in held-out rate, with an interval as above."""
    base_R, other_R = (np.array([final_level([curve]) for curve in curves]) for curves in (base, other))
    return _bootstrap(
        len(base), len(other), lambda first, second: float(other_R[second].mean() - base_R[first].mean()), seed
    )


def _bootstrap(
    num_base: int,
    num_other: int,
    statistic: Callable[[NDArray[np.int64], NDArray[np.int64]], float],
    seed: int,
) -> Estimate:
    """Estimate a statistic of the indices of runs."""
    generator = np.random.default_rng(seed)
    drawn = [
        statistic(generator.integers(num_base, size=num_base), generator.integers(num_other, size=num_other))
        for _ in range(NUM_RESAMPLES)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975], method="nearest")
    return Estimate(statistic(np.arange(num_base), np.arange(num_other)), float(low), float(high))
