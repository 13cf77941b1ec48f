"""What studies of the field found, as their tables and plots take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from research.studies.field.reach import Estimate


@dataclass(frozen=True)
class BinOutcome:
    """What became of the problems of one difficulty."""

    low: float
    high: float
    num_problems: int
    before: float
    """Mean pass rate of the untrained model, from responses that did not choose the bin."""
    gains: Mapping[str, Estimate]
    """By method: mean pass rate after training minus before; over problems and runs."""
    leads: Mapping[str, Estimate]
    """By method: how much more it gains than the first one, on the same problems with the same seeds."""

    @property
    def name(self) -> str:
        """Its starting pass rates in words."""
        return "0" if self.high == 0 else f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Effect:
    """What a change did."""

    base: str
    text: str
    level: float
    """Held-out avg@4 at the end, mean over seeds."""
    gain: Estimate
    """Level minus that of the base."""
    saving: Estimate
    """Generated tokens of the base over those of the changed method, to reach the level where the base ends."""
    trained: float
    """Trained tokens over generated ones at the end, mean over seeds."""
    num_seeds: int
