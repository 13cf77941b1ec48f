"""How many times faster a whole learning curve is run through: one factor for all of it.

What it costs to reach a level hangs on that level: where curves are flat, one 0.01 higher moves the cost by a third.
One factor on the cost axis uses every evaluation, and those the most where curves are steep.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import optimize

from research.studies.field.reach import Estimate, Floats, Runs, common_seeds, jackknifed, mean_curve

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
