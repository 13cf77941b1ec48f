"""A small group, half positive and half negative where the pool allows."""

from __future__ import annotations

from ada_lightning.core.protocols import Selection
from ada_lightning.core.records import KeptResponse, ResponsePool
from ada_lightning.methods.selection.choice import Choice
from ada_lightning.methods.selection.weights import with_selection_weights


class BalancedSelection(Selection):
    """``group_size // 2`` positives, the rest negatives, a shortage filled positives first.

    Responses within a class are exchangeable where stopping looks at labels only, so taking the first generated is
    then as good as taking any.

    Args:
        group_size: responses kept per prompt, fewer where the pool is smaller.
        random_order: take a random choice of each class instead of the first generated.
        seed: of that choice; with prompt, slot and step it decides, so a resumed run chooses the same.

    Raises:
        ValueError: ``group_size`` below 1.

    Source:
        Official code ``verl/trainer/ppo/ray_trainer.py`` at 05be605, ``downsample_cache`` (L1069-1083), which takes the
        first generated.
    """

    def __init__(self, *, group_size: int, random_order: bool = False, seed: int = 0) -> None:
        if group_size < 1:
            raise ValueError(f"group_size must be at least 1; got {group_size}")
        self.group_size = group_size
        self.choice = Choice(is_random=random_order, seed=seed)

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses, positives first, each class in launch order."""
        positives = [response for response in pool.trainable() if response.is_positive]
        negatives = [response for response in pool.trainable() if not response.is_positive]
        num_positive = min(self.group_size // 2, len(positives))
        num_negative = min(self.group_size - num_positive, len(negatives))
        num_positive = min(self.group_size - num_negative, len(positives))
        kept = self.choice.take(pool, (positives, negatives), (num_positive, num_negative))
        return with_selection_weights(pool, kept)
