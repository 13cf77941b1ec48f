"""What the seeds of a method have in common, and how far they lie apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


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

    def as_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return asdict(self)


class Mark(Enum):
    """How sure it is that a method is the best in a column."""

    NONE = ""
    AHEAD = "ahead"
    """Best mean, but a single seed or overlapping ranges: may be chance."""
    BEST = "best"
    """Every seed of it is better than every seed of the others, and nobody has fewer than two."""


def spread(values: Iterable[float | None]) -> Spread | None:
    """Summarise a figure over seeds; None and values that are not finite are left out.

    Returns:
        None where nothing is left.

    Example:
        >>> spread([1.0, 3.0, None])
        Spread(mean=2.0, low=1.0, high=3.0, num_seeds=2, standard_error=1.0)
    """
    there = [float(value) for value in values if value is not None and math.isfinite(value)]
    if not there:
        return None
    mean = sum(there) / len(there)
    error = None
    if len(there) > 1:
        error = math.sqrt(sum((value - mean) ** 2 for value in there) / (len(there) - 1) / len(there))
    return Spread(mean, min(there), max(there), len(there), error)


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
