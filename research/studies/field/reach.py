"""What it costs to get somewhere: learning curves of runs with the same seeds, compared pair by pair.

A seed fixes the order of prompts and which held-out problems are asked, so runs of two methods with one seed share some
of their luck. Everything here therefore compares the same seeds, and intervals come from leaving out half of the seeds
at a time (two of five; the delete-d jackknife, Shao and Wu 1989) with the quantiles of Student's t, which for a mean of
differences is the paired t interval. One at a time would do for that, not for the place where a curve crosses a level:
it hardly moves until it jumps, and where curves are flat the interval would be much too narrow by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

Curve = Sequence[Mapping[str, float]]
"""Rows of :func:`research.studies.runs.cost_curve`."""
Runs = Mapping[int, Curve]
"""Learning curves of one method by seed."""
Floats = NDArray[np.float64]
TOKENS = "generated_tokens"
_GRID = 400


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval; without one where there is a single seed."""

    value: float
    low: float
    high: float
    is_bound: bool = False
    """Whether the figure is only known to be at most ``value``."""


def nearest_share(curve: Curve, share: float) -> float:
    """Return the share of a run at which the evaluation is that stands for another share."""
    return round(share * (len(curve) - 1)) / (len(curve) - 1)


def level_after(curves: Sequence[Curve], share: float = 1.0) -> float:
    """Return the mean held-out rate after a share of the run.

    It is that of three evaluations, the one there and its neighbours, or the last three: a single one has the noise of
    512 responses.
    """
    levels = []
    for curve in curves:
        first = max(0, min(round(share * (len(curve) - 1)) - 1, len(curve) - 3))
        levels.append(np.mean([row["avg_at_4"] for row in curve[first : first + 3]]))
    return float(np.mean(levels))


def final_level(curves: Sequence[Curve]) -> float:
    """Return the mean held-out rate at the end."""
    return level_after(curves)


def mean_curve(curves: Sequence[Curve], cost: str) -> tuple[Floats, Floats]:
    """Return the mean cost at equal numbers of generated tokens, as far as every run goes, and each run's rate there.

    Returns:
        Costs, shape ``(G,)``, and rates by straight lines between evaluations, shape ``(R, G)``.
    """
    grid_G = np.linspace(0.0, min(curve[-1][TOKENS] for curve in curves), _GRID)
    return _along(curves, cost, grid_G).mean(0), _along(curves, "avg_at_4", grid_G)


def _along(curves: Sequence[Curve], column: str, grid_G: Floats) -> Floats:
    return np.array(
        [np.interp(grid_G, [row[TOKENS] for row in curve], [row[column] for row in curve]) for curve in curves]
    )


def cost_to_reach(cost_G: Floats, rate_G: Floats, level: float) -> float:
    """Return the first cost at which a curve is at ``level``, ``inf`` where it never is.

    A single evaluation far above its neighbours is luck and would be what crosses first, so the curve is replaced by
    the nearest one that never falls (isotonic regression).

    Example:
        >>> cost_to_reach(np.array([0.0, 10.0, 20.0]), np.array([0.0, 0.5, 0.7]), 0.25)
        5.0
        >>> cost_to_reach(np.array([0.0, 10.0, 20.0]), np.array([0.0, 0.5, 0.1]), 0.4)
        inf
    """
    rate_G = np.asarray(optimize.isotonic_regression(rate_G).x)
    above = np.flatnonzero(rate_G >= level)
    if len(above) == 0:
        return math.inf
    first = int(above[0])
    if first == 0:
        return float(cost_G[0])
    share = (level - rate_G[first - 1]) / (rate_G[first] - rate_G[first - 1])
    return float(cost_G[first - 1] + share * (cost_G[first] - cost_G[first - 1]))


def common_seeds(*methods: Runs) -> list[int]:
    """Return the seeds that all of them have."""
    seeds = sorted(set.intersection(*(set(runs) for runs in methods)))
    if not seeds:
        raise ValueError("the methods have no seed in common, so their runs cannot be compared")
    return seeds


def saving(bases: Sequence[Runs], other: Runs, cost: str, *, share: float = 1.0) -> Estimate:
    """Return how many times less ``other`` spends than the best of ``bases`` to reach a level of those.

    The level is the highest at which one of ``bases`` is after ``share`` of its run; what it costs them is the least
    that one of them spends to reach it. So each cost has the base that is best at it.

    Returns:
        A ratio: 2 means half the cost. Where ``other`` never gets there it is a bound, with all that it spent.
    """
    seeds = common_seeds(*bases, other)
    return jackknifed(lambda chosen: _log_saving(bases, other, cost, share, chosen), seeds, back=math.exp)


def _log_saving(
    bases: Sequence[Runs], other: Runs, cost: str, share: float, seeds: Sequence[int]
) -> tuple[float, bool]:
    chosen = [[runs[seed] for seed in seeds] for runs in bases]
    level = max(level_after(curves, share) for curves in chosen)
    spent = [_spent(curves, cost, level) for curves in chosen]
    # A mean curve may stay below the mean of its own last points; then all that its method spent counts.
    own = min((costs for costs, arrives in spent if arrives), default=max(costs for costs, _ in spent))
    others, arrives = _spent([other[seed] for seed in seeds], cost, level)
    return math.log(own / others), not arrives


def _spent(curves: Sequence[Curve], cost: str, level: float) -> tuple[float, bool]:
    cost_G, rate_RG = mean_curve(curves, cost)
    found = cost_to_reach(cost_G, rate_RG.mean(0), level)
    return (found, True) if math.isfinite(found) else (float(cost_G[-1]), False)


def difference(base: Runs, other: Runs) -> Estimate:
    """Return how much higher ``other`` ends than ``base``, in held-out rate, with the paired t interval over seeds."""

    def gain(seeds: Sequence[int]) -> tuple[float, bool]:
        return final_level([other[seed] for seed in seeds]) - final_level([base[seed] for seed in seeds]), False

    return jackknifed(gain, common_seeds(base, other))


def jackknifed(
    statistic: Callable[[Sequence[int]], tuple[float, bool]],
    seeds: Sequence[int],
    back: Callable[[float], float] = float,
) -> Estimate:
    """Estimate a statistic of seeds; ``back`` undoes the scale on which it is nearly symmetric."""
    value, is_bound = statistic(seeds)
    number = len(seeds)
    if number == 1:
        return Estimate(back(value), math.nan, math.nan, is_bound)
    kept = number - number // 2
    replicates = [statistic(chosen) for chosen in combinations(seeds, kept)]
    found = np.array([replicate for replicate, _ in replicates])
    error = math.sqrt(kept / (number - kept) * float(((found - found.mean()) ** 2).mean()))
    margin = float(stats.t.ppf(0.975, number - 1)) * error
    # Without some seeds it never gets there: how much worse it might be cannot be told.
    low = -math.inf if any(bound for _, bound in replicates) else value - margin
    return Estimate(back(value), back(low), back(value + margin), is_bound)


_FACTORS = np.geomspace(1 / 16, 16, 129)
"""Tried before the best is searched for between its neighbours: more than one may be better than those beside it."""


def time_scale(base: Runs, other: Runs, cost: str) -> Estimate:
    """Return how many times less ``other`` spends than ``base`` along its whole run, by least squares.

    The factor c for which the rate of ``other`` at each cost x of its run is nearest to that of ``base`` at c x; beyond
    its end ``base`` stays where it ended. Curves are means over seeds, which both methods share.
    """

    def log_factor(seeds: Sequence[int]) -> tuple[float, bool]:
        bases, others = (mean_curve([runs[seed] for seed in seeds], cost) for runs in (base, other))
        return math.log(best_factor(*_mean(bases), *_mean(others))), False

    return jackknifed(log_factor, common_seeds(base, other), back=math.exp)


def _mean(curves: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    cost_G, rate_RG = curves
    return cost_G, rate_RG.mean(0)


def best_factor(base_cost_G: Floats, base_rate_G: Floats, other_cost_G: Floats, other_rate_G: Floats) -> float:
    """Return the factor on the costs of a curve that brings it nearest to another one.

    Example:
        >>> cost, rate = np.array([0.0, 4.0, 8.0]), np.array([0.2, 0.4, 0.5])
        >>> round(best_factor(cost, rate, cost / 2, rate), 3)
        2.0
    """
    grid_G = np.linspace(0.0, other_cost_G[-1], len(other_cost_G))
    wanted_G = np.interp(grid_G, other_cost_G, other_rate_G)

    def error(log_factor: float) -> float:
        return float(np.mean((np.interp(math.exp(log_factor) * grid_G, base_cost_G, base_rate_G) - wanted_G) ** 2))

    tried = np.log(_FACTORS)
    best = int(np.argmin([error(factor) for factor in tried]))
    bounds = tried[max(best - 1, 0)], tried[min(best + 1, len(tried) - 1)]
    return math.exp(optimize.minimize_scalar(error, bounds=bounds, method="bounded").x)
