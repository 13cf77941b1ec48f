"""All of the rarer class, and as many of the other."""

from __future__ import annotations

from ada_lightning.core.protocols import Selection
from ada_lightning.core.records import KeptResponse, ResponsePool
from ada_lightning.methods.selection.weights import with_selection_weights


class RarerClassSelection(Selection):
    """The whole rarer class with as many of the other one, first generated, at most ``max_per_class`` of each.

    Spends more of the update on prompts whose pool happens to hold more of both; a pool with a single positive trains
    on two responses. One whose trainable responses are all of one class keeps up to ``max_per_class`` of them. They
    have no advantage, but KL, entropy and the denominators of the response and token means must not lose the prompt.

    Args:
        max_per_class: most responses kept of each class; a group holds up to twice as many.

    Raises:
        ValueError: ``max_per_class`` below 1.
    """

    def __init__(self, *, max_per_class: int) -> None:
        if max_per_class < 1:
            raise ValueError(f"max_per_class must be at least 1; got {max_per_class}")
        self.max_per_class = max_per_class

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses, positives first, each class in launch order."""
        positives = [response for response in pool.trainable() if response.is_positive]
        negatives = [response for response in pool.trainable() if not response.is_positive]
        rarer = min(len(positives), len(negatives)) or len(positives) or len(negatives)
        number = min(rarer, self.max_per_class)
        return with_selection_weights(pool, positives[:number] + negatives[:number])
