"""First visits measure, later ones train."""

from __future__ import annotations

from ada_lightning.core.protocols import Selection
from ada_lightning.core.records import KeptResponse, ResponsePool
from ada_lightning.methods.selection.weights import with_selection_weights


class SeenSelection(Selection):
    """Keeps every response of a prompt that was seen before the step, and none of one that was not.

    What is dropped depends on history alone, never on the step's responses, so it decides which prompts count, no more.
    """

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return all that may train, or nothing."""
        return with_selection_weights(pool, pool.trainable()) if self.takes(pool) else ()

    def takes(self, pool: ResponsePool) -> bool:
        """Whether the prompt was seen before the step."""
        return pool.belief.is_seen

    def bend(self) -> str:
        """Say what it does to the update."""
        return "selection: a prompt's first visit measures it and does not train"
