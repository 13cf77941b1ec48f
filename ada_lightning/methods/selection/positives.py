"""Rejection sampling: what was accepted trains, nothing else."""

from __future__ import annotations

from ada_lightning.core.protocols import Selection, Trait
from ada_lightning.core.records import KeptResponse, ResponsePool
from ada_lightning.methods.selection.weights import with_selection_weights


class PositivesSelection(Selection):
    """Every positive of the pool, no negative. A prompt without a positive is dropped.

    The group that trains has no contrast: advantages that compare its responses with each other are all 0, so it goes
    with ``advantage=accepted``. Means over kept responses or tokens count positives only, as RAFT's do.

    Source:
        RAFT, arXiv:2304.06767; RAFT++, arXiv:2504.11343, section 2.
    """

    traits = frozenset({Trait.KEEPS_WHAT_THERE_IS})

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the positives that may train, in launch order."""
        return with_selection_weights(pool, [response for response in pool.trainable() if response.is_positive])
