"""Curves of runs against steps, generated tokens or seconds, their mean over seeds, and their pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ada_lightning.analysis.report.drawing import Drawing, blank, finished, style, tidy
from ada_lightning.analysis.report.method import Method
from ada_lightning.analysis.report.run import NOT_TRAINING, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
MAX_POINTS = 60
"""Most points of a training curve; longer ones are averaged over neighbouring steps."""
GRID = 80
PHASES = {
    "rollout": "#3d82c4",
    "grade": "#2f9e6e",
    "update": "#d9752e",
    "sync": "#a06bd1",
    "eval": "#7d8590",
    "checkpoint": "#a88a1c",
    "preview": "#a9b4bf",
    "start": "#c9a58b",
}
"""Colours of the phases of a step, those of training first."""


class Axis(Enum):
    """What a policy has cost by the time it was measured."""

    STEPS = "rollout steps"
    TOKENS = "generated tokens"
    """All that were drawn for training, those that were dropped included; evaluations are not counted."""
    SECONDS = "training time"
    """Seconds of all phases but start-up, preview and evaluation."""


UNITS = {Axis.STEPS: 1.0, Axis.TOKENS: 1e3, Axis.SECONDS: 60.0}
LABELS = {Axis.STEPS: "rollout steps", Axis.TOKENS: "generated tokens, thousands", Axis.SECONDS: "training minutes"}


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
    """Mean and range of curves over the part that all of them cover; nothing is extrapolated.

    Returns:
        None without a curve or without a common part.
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


@dataclass(frozen=True)
class Quantity:
    """Something that is measured over the training."""

    name: str
    """Begin of its file names."""
    title: str
    column: Callable[[Run], str | None]
    """Its column in a run's metrics."""
    is_evaluation: bool = False
    """Measured now and then: every point is drawn, none are averaged."""


def _always(key: str) -> Callable[[Run], str | None]:
    return lambda run: key


HELDOUT = Quantity("heldout", "held-out avg@k", lambda run: run.heldout_key, is_evaluation=True)
TRAINING = (
    Quantity("reward", "mean reward of first-round responses", _always("rollout/reward_first_round")),
    Quantity("signal", "share of prompts with a training signal", _always("rollout/signal_ratio")),
    Quantity("length", "tokens per response", _always("rollout/response_tokens")),
    Quantity("responses", "responses sampled per step", _always("rollout/num_sampled")),
)


def draw(methods: Sequence[Method], quantity: Quantity, axis: Axis) -> Drawing | None:
    """Draw a quantity: a thin line per run; a thick one for the mean and a band for the range of several seeds.

    Returns:
        None where no run has it.
    """
    lines = [_lines(method, quantity, axis) for method in methods]
    if not any(lines):
        return None
    with blank(*((4.3, 2.75) if quantity.is_evaluation else (6.3, 2.6))) as figure:
        axes = figure.subplots()
        for index, of_method in enumerate(lines):
            _draw_method(axes, of_method, index, axis, quantity)
        tidy(axes, quantity.title)
        axes.set_xlabel(LABELS[axis])
        axes.set_xlim(left=0)
        if min(line.y.min() for of_method in lines for line in of_method) >= 0:  # rewards may be negative
            axes.set_ylim(bottom=0)
        return finished(figure, f"{quantity.name}_by_{axis.name.lower()}", f"{quantity.title}, by {axis.value}")


def points_per_mean(methods: Sequence[Method], quantity: Quantity) -> int:
    """Most steps that one point of a training curve stands for."""
    lines = [curve(run, quantity.column(run), Axis.STEPS) for method in methods for run in method.runs]
    return max((thinned(line)[1] for line in lines), default=1)


def _lines(method: Method, quantity: Quantity, axis: Axis) -> list[Curve]:
    lines = [curve(run, quantity.column(run), axis) for run in method.runs]
    return [line if quantity.is_evaluation else thinned(line)[0] for line in lines if len(line.x)]


def _draw_method(axes: Axes, lines: Sequence[Curve], index: int, axis: Axis, quantity: Quantity) -> None:
    color, dash = style(index)
    unit, is_single = UNITS[axis], len(lines) == 1
    for line in lines:
        axes.plot(
            line.x / unit,
            line.y,
            color=color,
            linestyle=dash,
            linewidth=1.8 if is_single else 0.7,
            alpha=1.0 if is_single else 0.45,
            marker="o" if quantity.is_evaluation else "",
            markersize=3.5 if is_single else 2,
        )
    if is_single or (middle := band(lines)) is None:
        return
    axes.fill_between(middle.x / unit, middle.low, middle.high, color=color, alpha=0.14, linewidth=0)
    axes.plot(middle.x / unit, middle.mean, color=color, linestyle=dash, linewidth=2.0)


def phase_seconds(method: Method) -> dict[str, float]:
    """Seconds by phase, mean over the method's runs that logged any; training's phases first."""
    logged = [run.phase_seconds for run in method.runs if run.phase_seconds]
    phases = {phase for seconds in logged for phase in seconds}
    order = [*(phase for phase in PHASES if phase in phases), *sorted(phases - PHASES.keys())]
    return {phase: sum(seconds.get(phase, 0.0) for seconds in logged) / len(logged) for phase in order}


def draw_phases(methods: Sequence[Method]) -> Drawing | None:
    """Draw a bar per method, one piece per phase; None where nobody logged seconds."""
    seconds = [phase_seconds(method) for method in methods]
    phases = list(dict.fromkeys(phase for by_phase in seconds for phase in by_phase))
    if not phases:
        return None
    with blank(12.4, 1.05 + 0.34 * len(methods)) as figure:
        axes = figure.subplots()
        left = [0.0] * len(methods)
        for phase in [*(phase for phase in PHASES if phase in phases), *(p for p in phases if p not in PHASES)]:
            widths = [by_phase.get(phase, 0.0) / 60 for by_phase in seconds]
            axes.barh(
                range(len(methods)), widths, left=left, label=phase, color=PHASES.get(phase, "#5f8f9c"), height=0.62
            )
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set_yticks(range(len(methods)), [method.name for method in methods])
        axes.invert_yaxis()
        tidy(axes, "")
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("minutes, mean over runs")
        figure.legend(loc="outside upper left", ncols=len(phases), frameon=False, handlelength=1, columnspacing=1.3)
        return finished(figure, "phases", "where the time goes")
