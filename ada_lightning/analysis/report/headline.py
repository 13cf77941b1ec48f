"""The figures a run is judged by, per method with mean and range over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from functools import partial
from statistics import fmean, stdev
from typing import Any

from ada_lightning.analysis.report.curves import Axis, curve, spent_before
from ada_lightning.analysis.report.method import Method
from ada_lightning.analysis.report.run import Run


@dataclass(frozen=True)
class Spread:
    """Mean and range of a figure over the seeds that have it."""

    mean: float
    low: float
    """Lowest of the seeds."""
    high: float
    """Highest of the seeds."""
    num_seeds: int
    """Seeds that have the figure."""
    standard_error: float | None
    """Of the mean, from the sample's standard deviation; None with a single seed."""


class Mark(Enum):
    """How sure it is that a method is the best in a column."""

    NONE = ""
    AHEAD = "ahead"
    """Best mean, but a single seed or overlapping ranges: may be chance."""
    BEST = "best"
    """Every seed of it is better than every seed of the others, and nobody has fewer than two."""


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
        return None if figure is None else asdict(figure) | {"mark": self.marks[method].value}


@dataclass(frozen=True)
class Headline:
    """The table at the top of the page."""

    columns: list[Column]
    level: float | None
    """Held-out avg@k whose cost is compared; None if nothing was evaluated, or a run began there."""
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
            price = partial(_price, level=level, axis=axis)
            columns.append(_column(methods, key, title, unit, price, False))
    return Headline(columns, level, is_given)


def spread(values: Iterable[float | None]) -> Spread | None:
    """Summarise a figure over seeds; None and values that are not finite are left out, and None is what is left then.

    Example:
        >>> spread([1.0, 3.0, None])
        Spread(mean=2.0, low=1.0, high=3.0, num_seeds=2, standard_error=1.0)
    """
    there = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not there:
        return None
    error = stdev(there) / math.sqrt(len(there)) if len(there) > 1 else None
    return Spread(fmean(there), min(there), max(there), len(there), error)


def marks(figures: Sequence[Spread | None], *, highest: bool, complete: Sequence[bool] | None = None) -> list[Mark]:
    """Mark the best of a column. Methods without the figure do not compete; one alone is no winner.

    Args:
        figures: of each method.
        highest: whether more is better.
        complete: whether all of a method's seeds have the figure; one that has not is at most ahead, and nobody is
            clearly better than it. All, if left out.
    """
    result = [Mark.NONE] * len(figures)
    sign = 1.0 if highest else -1.0
    there = {index: figure for index, figure in enumerate(figures) if figure is not None}
    if len(there) < 2:
        return result
    best = max(there, key=lambda index: sign * there[index].mean)
    tied = [index for index, figure in there.items() if figure.mean == there[best].mean]
    if len(tied) == len(there):
        return result
    for index in tied:
        result[index] = Mark.AHEAD
    others = [figure for index, figure in there.items() if index != best]
    worst = there[best].low if highest else there[best].high
    is_apart = all(sign * worst > sign * (other.high if highest else other.low) for other in others)
    is_repeated = all(figure.num_seeds > 1 for figure in there.values())
    is_complete = complete is None or all(complete[index] for index in there)
    if is_apart and is_repeated and is_complete:
        result[best] = Mark.BEST
    return result


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
    return spent_before(run, axis)[-1] if run.num_steps else None


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


def _price(run: Run, *, level: float, axis: Axis) -> float | None:
    return curve(run, run.heldout_key, axis).reaches(level)


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
    no_contest = [Mark.NONE] * len(methods)
    of_each = no_contest if highest is None else marks(figures, highest=highest, complete=complete)
    return Column(key, title, unit, figures, of_each)
