"""Curves of runs against steps, generated tokens or seconds, and their mean over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ada_lightning.analysis.report.run import NOT_TRAINING, Run

Floats = NDArray[np.float64]
MAX_POINTS = 60
"""Most points of a training curve; longer ones are averaged over neighbouring steps."""
GRID = 80


class Axis(Enum):
    """What a policy has cost by the time it was measured."""

    STEPS = "rollout steps"
    TOKENS = "generated tokens"
    """All that were drawn for training, those that were dropped included; evaluations are not counted."""
    SECONDS = "training time"
    """Seconds of all phases but start-up, preview and evaluation."""


@dataclass(frozen=True)
class Curve:
    """A figure of one run over one axis."""

    x: Floats
    y: Floats

    def at(self, x: Floats) -> Floats:
        """Interpolate between the points, by straight lines; not a number beyond the first and the last."""
        if not len(self.x):
            return np.full_like(x, np.nan)
        return np.asarray(np.interp(x, self.x, self.y, left=np.nan, right=np.nan))

    def reaches(self, level: float) -> float | None:
        """Where the curve is at or above ``level`` for the first time; None if it never is."""
        reached = np.flatnonzero(self.y >= level)
        if not reached.size:
            return None
        last = int(reached[0])
        if last == 0:
            return float(self.x[0])
        return float(np.interp(level, self.y[last - 1 : last + 1], self.x[last - 1 : last + 1]))


@dataclass(frozen=True)
class Band:
    """Mean and range of curves, where all of them have a value."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats


def curve(run: Run, key: str | None, axis: Axis) -> Curve:
    """Read a figure of a run. Values that are not finite are left out."""
    points = [
        (x, value)
        for x, row in zip(spent_before(run, axis), run.rows, strict=False)
        if key is not None and math.isfinite(value := row.get(key, math.nan))
    ]
    x, y = np.array(points, dtype=np.float64).reshape(-1, 2).T
    return Curve(x, y)


def thinned(line: Curve, max_points: int = MAX_POINTS) -> tuple[Curve, int]:
    """Average neighbouring points so that at most ``max_points`` remain.

    Returns:
        The shorter curve, and how many points were averaged into one (the last may have fewer).
    """
    size = max(1, math.ceil(len(line.x) / max_points))
    starts = np.arange(0, len(line.x), size)
    if size == 1:
        return line, 1
    counts = np.diff(np.append(starts, len(line.x)))
    return Curve(np.add.reduceat(line.x, starts) / counts, np.add.reduceat(line.y, starts) / counts), size


def band(curves: Sequence[Curve]) -> Band | None:
    """Mean and range of curves over the stretch that all of them cover; nothing is extrapolated.

    Returns:
        None without a curve or without a common stretch.
    """
    if not curves or any(not len(line.x) for line in curves):
        return None
    start, end = max(line.x[0] for line in curves), min(line.x[-1] for line in curves)
    if start > end:
        return None
    own = np.unique(np.concatenate([line.x for line in curves]))
    inside = own[(own >= start) & (own <= end)]
    grid = inside if len(inside) <= GRID else np.linspace(start, end, GRID)
    values = np.array([line.at(grid) for line in curves])
    return Band(grid, values.mean(axis=0), values.min(axis=0), values.max(axis=0))


def spent_before(run: Run, axis: Axis) -> list[float]:
    """What the rows of a run had cost before the step they stand for, and at last what all of them have.

    A row holds the step that policy took, and the evaluation of the same policy before it: both measure what all
    earlier rows paid for.
    """
    return list(accumulate((_cost(row, axis) for row in run.rows), initial=0.0))


def _cost(row: Any, axis: Axis) -> float:
    if axis is Axis.STEPS:
        return 1.0 if "rollout/generated_tokens" in row else 0.0
    if axis is Axis.TOKENS:
        return _finite(row, "rollout/generated_tokens") + _finite(row, "rollout/tokens_wasted")
    phases = [key for key in row if key.startswith("time/") and key.endswith("_s")]
    return sum(_finite(row, key) for key in phases if key[len("time/") : -len("_s")] not in NOT_TRAINING)


def _finite(row: Any, key: str) -> float:
    value = row.get(key, 0.0)
    return float(value) if math.isfinite(value) else 0.0
