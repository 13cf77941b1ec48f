"""A small group, half positive and half negative where the pool allows."""

from __future__ import annotations

from dataclasses import dataclass

from ada_lightning.core.records import KeptResponse, ResponsePool
from ada_lightning.methods.selection.choice import ClassSelection
from ada_lightning.methods.selection.weights import by_label, with_selection_weights


@dataclass(kw_only=True, eq=False)
class BalancedSelection(ClassSelection):
    """``group_size // 2`` positives, the rest negatives, a shortage filled positives first.

    Source:
        RLHFlow/Reinforce-Ada at 05be605, ``verl/trainer/ppo/ray_trainer.py``: ``downsample_cache`` (L1069-1083), which
        takes the first generated.
    """

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses, positives first, each class in launch order."""
        positives, negatives = by_label(pool)
        num_positive = min(self.group_size // 2, len(positives))
        num_negative = min(self.group_size - num_positive, len(negatives))
        num_positive = min(self.group_size - num_negative, len(positives))
        return with_selection_weights(pool, self.take(pool, (positives, negatives), (num_positive, num_negative)))
