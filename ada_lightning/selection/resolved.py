"""Pools in which sampling found what it looks for."""

from __future__ import annotations

from ada_lightning.protocols import SelectionRule
from ada_lightning.types import KeptResponse, ResponsePool


class ResolvedSelection:
    """Drops prompts whose pool is not resolved, and leaves the others to another selection.

    What a pilot turned down has been paid for and does not train: Pilot-Commit drops those prompts although their
    pilots may differ. The weight that they would have had is lost, so no estimator is exact with it.

    Args:
        selection: what is kept of a resolved pool.
    """

    def __init__(self, *, selection: SelectionRule) -> None:
        self.selection = selection

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return what the inner selection keeps, or nothing."""
        return self.selection.select(pool) if pool.is_resolved else ()
