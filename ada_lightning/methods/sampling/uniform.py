"""A fixed group for every prompt: what GRPO and its relatives do."""

from __future__ import annotations

from ada_lightning.core.protocols import PoolEnd, Sampler
from ada_lightning.core.records import ResponsePool
from ada_lightning.core.stopping.rule import FixedRule


class UniformSampler(Sampler):
    """Draws ``group_size`` responses per prompt at once. Responses that are no evidence are not drawn anew.

    Raises:
        ValueError: ``group_size`` below 1.
    """

    def __init__(self, *, group_size: int) -> None:
        if group_size < 1:
            raise ValueError(f"group_size must be at least 1; got {group_size}")
        self.group_size = group_size
        self.samples_per_round = group_size

    def num_to_draw(self, pool: ResponsePool) -> int:
        """The whole group, then nothing."""
        return max(0, self.group_size - pool.num_drawn)

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Stop at ``group_size``."""
        return PoolEnd(FixedRule(self.group_size))
