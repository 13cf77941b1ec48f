"""Learning curves of runs with the same seeds, compared pair by pair.

A seed fixes the order of prompts and which held-out problems are asked, so runs of two methods with one seed share some
of their luck. Everything here therefore compares the same seeds, and intervals come from leaving out half of the seeds
at a time (two of five; the delete-d jackknife, Shao and Wu 1989) with the quantiles of Student's t, which for a mean of
differences is the paired t interval. One at a time would do for that, not for a figure that hardly moves until it
jumps: its interval would be much too narrow by chance. ``python -m research.studies.coverage`` counts how often these
intervals, and those of other methods, hold a factor that is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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
MIN_PAIRS = 5
"""With fewer there is no interval: those of three pairs hold the truth too rarely (docs/studies/coverage.json)."""
MAX_HALVES = 1000
"""Of more than twelve seeds so many halves are drawn: all of twenty would be 184,756."""
_GRID = 400


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval; without one (nan) where there are fewer than ``MIN_PAIRS`` seeds."""

    value: float
    low: float = math.nan
    high: float = math.nan

    def written(self, form: str) -> str:
        """Write value and interval.

        Example:
            >>> Estimate(1.5, 1.2, 1.9).written(".2f"), Estimate(0.1).written("+.3f")
            ('1.50 [1.20, 1.90]', '+0.100')
        """
        interval = "" if math.isnan(self.low) else f" [{self.low:{form}}, {self.high:{form}}]"
        return f"{self.value:{form}}{interval}"


def later(curve: Curve, tokens: float) -> Curve:
    """Return a curve before which so many tokens were generated without learning anything.

    Example:
        >>> later([{"generated_tokens": 0.0, "held_out": 0.2}, {"generated_tokens": 5.0, "held_out": 0.3}], 3.0)[1]
        {'generated_tokens': 3.0, 'held_out': 0.2}
    """
    if not tokens:
        return curve
    return [dict(curve[0]), *({**row, TOKENS: row[TOKENS] + tokens} for row in curve)]


def final_level(curves: Sequence[Curve]) -> float:
    """Return the mean held-out rate of the last three evaluations: a single one has the noise of 512 responses."""
    return float(np.mean([np.mean([row["held_out"] for row in curve[-3:]]) for curve in curves]))


def mean_curve(curves: Sequence[Curve], cost: str) -> tuple[Floats, Floats]:
    """Return the mean cost at equal numbers of generated tokens, as far as every run goes, and each run's rate there.

    Returns:
        Costs, shape ``(G,)``, and rates by straight lines between evaluations, shape ``(R, G)``.
    """
    grid_G = np.linspace(0.0, min(curve[-1][TOKENS] for curve in curves), _GRID)
    return _along(curves, cost, grid_G).mean(0), _along(curves, "held_out", grid_G)


def _along(curves: Sequence[Curve], column: str, grid_G: Floats) -> Floats:
    return np.array(
        [np.interp(grid_G, [row[TOKENS] for row in curve], [row[column] for row in curve]) for curve in curves]
    )


def common_seeds(*methods: Runs) -> list[int]:
    """Return the seeds that all of them have."""
    seeds = sorted(set.intersection(*(set(runs) for runs in methods)))
    if not seeds:
        raise ValueError("the methods have no seed in common, so their runs cannot be compared")
    return seeds


Statistic = Callable[[Sequence[int]], float]
"""A figure of some of the seeds."""


def jackknifed(
    statistic: Statistic, seeds: Sequence[int], back: Callable[[float], float] = float, *, level: float = 0.95
) -> Estimate:
    """Estimate a statistic of seeds; ``back`` undoes the scale on which it is nearly symmetric."""
    value = statistic(seeds)
    if len(seeds) < MIN_PAIRS:
        return Estimate(back(value))
    margin = half_width(statistic, seeds, level=level)
    return Estimate(back(value), back(value - margin), back(value + margin))


def half_width(statistic: Statistic, seeds: Sequence[int], *, level: float) -> float:
    """Return half of the width of an interval: Student's t times the error that halves of the seeds show.

    Args:
        statistic: the figure.
        seeds: at least two.
        level: how often the interval is to hold the truth, such as 0.95.
    """
    number = len(seeds)
    kept = number - number // 2
    halves: Iterable[Sequence[int]] = combinations(seeds, kept)
    if math.comb(number, kept) > MAX_HALVES:
        generator = np.random.default_rng(0)
        halves = [generator.choice(seeds, kept, replace=False).tolist() for _ in range(MAX_HALVES)]
    variance = kept / (number - kept) * float(np.var([statistic(chosen) for chosen in halves]))
    return float(stats.t.ppf((1 + level) / 2, number - 1)) * math.sqrt(variance)


def difference(base: Runs, other: Runs, *, level: float = 0.95) -> Estimate:
    """Return how much higher ``other`` ends than ``base``, in held-out rate, with the paired t interval over seeds."""

    def gain(seeds: Sequence[int]) -> float:
        return final_level([other[seed] for seed in seeds]) - final_level([base[seed] for seed in seeds])

    return jackknifed(gain, common_seeds(base, other), level=level)


def time_scale(base: Runs, other: Runs, cost: str, *, level: float = 0.95) -> Estimate:
    """Return how many times less ``other`` spends than ``base`` along its whole run, by least squares.

    The factor c for which the rate of ``other`` at each cost x of its run is nearest to that of ``base`` at c x; beyond
    its end ``base`` stays where it ended. Curves are means over seeds, which both methods share.
    """
    factor = LogScale(base, other, cost)
    return jackknifed(factor, common_seeds(base, other), back=math.exp, level=level)


class LogScale:
    """The logarithm of :func:`time_scale` of some seeds, repeats included.

    Halves of the seeds share what is read off a curve: as many grids as there are ends of runs.
    """

    def __init__(self, base: Runs, other: Runs, cost: str) -> None:
        self._curves, self._columns = (base, other), (cost, "held_out")
        self._read: dict[tuple[int, int, float], Floats] = {}

    def __call__(self, seeds: Sequence[int]) -> float:
        """Return the figure of these seeds."""
        (base_cost_G, base_rate_G), (other_cost_G, other_rate_G) = (self._means(place, seeds) for place in (0, 1))
        return math.log(best_factor(base_cost_G, base_rate_G, other_cost_G, other_rate_G))

    def _means(self, place: int, seeds: Sequence[int]) -> Floats:
        """Return the mean cost and rate of one method, as of :func:`mean_curve`. Shape ``(2, G)``."""
        runs = self._curves[place]
        end = min(runs[seed][-1][TOKENS] for seed in seeds)
        means: Floats = np.mean([self._of(place, seed, end) for seed in seeds], axis=0)
        return means

    def _of(self, place: int, seed: int, end: float) -> Floats:
        if (key := (place, seed, end)) not in self._read:
            curve, grid_G = [self._curves[place][seed]], np.linspace(0.0, end, _GRID)
            self._read[key] = np.concatenate([_along(curve, column, grid_G) for column in self._columns])
        return self._read[key]


FACTORS = np.geomspace(1 / 16, 16, 129)
"""Tried before the best is searched for between its neighbours: more than one may be better than those beside it."""


def is_at_an_end(factor: float) -> bool:
    """Whether a factor is the least or the largest that is tried: then there is none that fits.

    Example:
        >>> is_at_an_end(1 / 16), is_at_an_end(2.0)
        (True, False)
    """
    return not FACTORS[1] < factor < FACTORS[-2]


def best_factor(base_cost_G: Floats, base_rate_G: Floats, other_cost_G: Floats, other_rate_G: Floats) -> float:
    """Return the factor on the costs of a curve that brings it nearest to another one.

    Example:
        >>> cost, rate = np.array([0.0, 4.0, 8.0]), np.array([0.2, 0.4, 0.5])
        >>> round(best_factor(cost, rate, cost / 2, rate), 3)
        2.0
    """
    grid_G = np.linspace(0.0, other_cost_G[-1], len(other_cost_G))
    wanted_G = np.interp(grid_G, other_cost_G, other_rate_G)

    def errors(factors_F: Floats, every: int = 1) -> Floats:
        rates_FG = np.interp(np.multiply.outer(factors_F, grid_G[::every]), base_cost_G, base_rate_G)
        return np.mean((rates_FG - wanted_G[::every]) ** 2, axis=-1)

    # A quarter of the points tells the valleys, all of them which is the deepest.
    edged = np.pad(errors(FACTORS, every=4), 1, constant_values=np.inf)
    valleys = np.flatnonzero((edged[1:-1] <= edged[:-2]) & (edged[1:-1] <= edged[2:]))
    tried = np.unique(np.clip(valleys[:, None] + np.arange(-1, 2), 0, len(FACTORS) - 1))
    best = int(tried[np.argmin(errors(FACTORS[tried]))])
    bounds = np.log(FACTORS[[max(best - 1, 0), min(best + 1, len(FACTORS) - 1)]])
    return math.exp(
        optimize.minimize_scalar(lambda log_factor: errors(np.exp(log_factor)), bounds=bounds, method="bounded").x
    )
