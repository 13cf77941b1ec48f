"""Keep the whole pool."""

from __future__ import annotations

from ada_lightning.core.protocols import Selection, Trait
from ada_lightning.core.records import KeptResponse, ResponsePool
from ada_lightning.methods.selection.weights import with_selection_weights


class AllSelection(Selection):
    """Every response of the pool trains: GRPO's groups, and the lowest variance where memory allows."""

    traits = frozenset({Trait.KEEPS_WHAT_THERE_IS})

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the pool in launch order, each with weight 1 (more where masked responses do not train)."""
        return with_selection_weights(pool, pool.trainable())
