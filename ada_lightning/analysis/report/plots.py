"""Draws what the runs measured over their training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ada_lightning.analysis.report.curves import Axis, Curve, band, curve, thinned
from ada_lightning.analysis.report.drawing import Drawing, blank, finished, style, tidy
from ada_lightning.analysis.report.method import Method
from ada_lightning.analysis.report.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UNITS = {Axis.STEPS: 1.0, Axis.TOKENS: 1e3, Axis.SECONDS: 60.0}
LABELS = {Axis.STEPS: "rollout steps", Axis.TOKENS: "generated tokens, thousands", Axis.SECONDS: "training minutes"}


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
