"""Pools in which sampling found what it looks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ada_lightning.core.protocols import Selection, Trait
from ada_lightning.core.records import KeptResponse, ResponsePool
from ada_lightning.methods.checked import Check, Checked


@dataclass(kw_only=True, eq=False)
class ResolvedSelection(Checked, Selection):
    """Drops prompts whose pool is not resolved, and leaves the others to another selection.

    What a pilot turned down has been paid for and does not train: Pilot-Commit drops those prompts although their
    pilots may differ. The weight that they would have had is lost, so no estimator is exact with it. A step that is
    filled up (``refill``) does not count them either: it goes on until enough pools have a signal and are resolved.

    Raises:
        ValueError: the other selection compares the pools of a step.
    """

    traits = frozenset({Trait.KEEPS_WHAT_THERE_IS})

    selection: Selection
    """What is kept of a resolved pool."""

    def _checks(self) -> Iterator[Check]:
        yield (
            Trait.COMPARES_POOLS not in self.selection.traits,
            f"selection.selection: {type(self.selection).__name__} compares the pools of a step, and what "
            "ResolvedSelection leaves to it is one pool at a time; use a selection that looks at one, or "
            f"{type(self.selection).__name__} as the selection itself",
        )

    @property
    def within(self) -> Selection:
        """That of a resolved pool."""
        return self.selection.within

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return what the inner selection keeps, or nothing."""
        return self.selection.select(pool) if pool.is_resolved else ()

    def takes(self, pool: ResponsePool) -> bool:
        """Whether it is resolved, and the inner selection takes it."""
        return pool.is_resolved and self.selection.takes(pool)

    def bend(self) -> str:
        """Say what the inner selection says."""
        return self.selection.bend()
