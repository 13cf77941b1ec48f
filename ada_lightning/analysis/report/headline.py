"""The figures a run is judged by, per method with mean and range over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ada_lightning.analysis.report.curves import Axis, curve
from ada_lightning.analysis.report.method import Method
from ada_lightning.analysis.report.run import Run
from ada_lightning.analysis.report.spread import Mark, Spread, marks, spread


@dataclass(frozen=True)
class Column:
    """One figure of all methods."""

    key: str
    """Name in ``report.json``."""
    title: str
    unit: str
    figures: list[Spread | None]
    """One per method."""
    marks: list[Mark]
    """One per method."""

    def as_dict(self, method: int) -> dict[str, Any] | None:
        """Return one method's figure, for JSON."""
        figure = self.figures[method]
        return None if figure is None else figure.as_dict() | {"mark": self.marks[method].value}


@dataclass(frozen=True)
class Headline:
    """The table at the top of the page."""

    columns: list[Column]
    level: float | None
    """Held-out avg@k whose price is compared; None where nothing was evaluated, or a run began there."""
    level_is_given: bool
    """Whether a person chose the level."""


def headline(methods: Sequence[Method], *, level: float | None = None) -> Headline:
    """Compute the table.

    Args:
        methods: what is compared.
        level: held-out avg@k to reach. Left out: the highest level that all runs have reached, and none where one was
            there before its first update, for nothing was paid for it.
    """
    is_given = level is not None
    if level is None:
        level = common_level(methods)
        starts = [start for method in methods for run in method.runs if (start := heldout_before(run)) is not None]
        level = None if level is not None and any(start >= level for start in starts) else level
    columns = [
        _column(methods, "heldout_before", "held-out before", "", heldout_before, None),
        _column(methods, "heldout_after", "held-out after", "", heldout_after, True),
        _column(methods, "signal_ratio", "signal ratio", "", lambda run: run.mean("rollout/signal_ratio"), None),
        _column(methods, "generated_tokens", "tokens generated", "tokens", lambda run: spent(run, Axis.TOKENS), None),
        _column(methods, "training_seconds", "training time", "seconds", lambda run: spent(run, Axis.SECONDS), None),
    ]
    if level is not None:
        for key, title, unit, axis in (
            ("tokens_to_level", f"tokens to reach {level:.3f}", "tokens", Axis.TOKENS),
            ("seconds_to_level", f"time to reach {level:.3f}", "seconds", Axis.SECONDS),
        ):
            columns.append(_column(methods, key, title, unit, _price(level, axis), False))
    return Headline(columns, level, is_given)


def heldout_before(run: Run) -> float | None:
    """Held-out avg@k of the policy before its first update; None where it was not measured."""
    line = curve(run, run.heldout_key, Axis.STEPS)
    return float(line.y[0]) if len(line.x) and line.x[0] == 0 else None


def heldout_after(run: Run) -> float | None:
    """Held-out avg@k when it was last measured; None where it never was after an update."""
    line = curve(run, run.heldout_key, Axis.STEPS)
    return float(line.y[-1]) if len(line.x) and line.x[-1] > 0 else None


def spent(run: Run, axis: Axis) -> float | None:
    """What the whole run has cost; None before its first step."""
    if not run.num_steps:
        return None
    ended = Run(run.folder, run.settings, [*run.rows, {"end": 0.0}], run.summary)
    return float(curve(ended, "end", axis).x[-1])


def common_level(methods: Sequence[Method]) -> float | None:
    """Return the best held-out avg@k of the weakest run: all runs reach it, so no seed drops out of the comparison.

    Runs that did not finish do not lower it, unless their method has no others.

    Returns:
        None where no run was evaluated after an update.
    """
    best = []
    for method in methods:
        runs = [run for run in method.runs if run.status == "finished"] or method.runs
        lines = [curve(run, run.heldout_key, Axis.STEPS) for run in runs]
        best += [float(line.y.max()) for line in lines if len(line.x) and line.x[-1] > 0]
    return min(best, default=None)


def _price(level: float, axis: Axis) -> Callable[[Run], float | None]:
    return lambda run: curve(run, run.heldout_key, axis).reaches(level)


def _column(
    methods: Sequence[Method],
    key: str,
    title: str,
    unit: str,
    figure: Callable[[Run], float | None],
    highest: bool | None,
) -> Column:
    """Summarise one figure; with ``highest`` None it is not a contest."""
    figures = [spread(figure(run) for run in method.runs) for method in methods]
    complete = [
        summary is not None and summary.num_seeds == len(method.runs) == len(set(map(str, method.seeds)))
        for summary, method in zip(figures, methods, strict=True)
    ]
    none = [Mark.NONE] * len(methods)
    return Column(
        key, title, unit, figures, none if highest is None else marks(figures, highest=highest, complete=complete)
    )
