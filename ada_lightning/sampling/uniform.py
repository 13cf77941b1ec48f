"""A fixed group for every prompt: what GRPO and its relatives do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ada_lightning.types import ResponsePool


class UniformSampler:
    """Draws ``group_size`` responses per prompt at once.

    Raises:
        ValueError: ``group_size`` below 1.
    """

    def __init__(self, *, group_size: int) -> None:
        if group_size < 1:
            raise ValueError(f"group_size must be at least 1; got {group_size}")
        self.group_size = group_size

    @property
    def max_per_prompt(self) -> int:
        """Upper limit of draws for one prompt in one step."""
        return self.group_size

    def num_to_draw(self, pool: ResponsePool) -> int:
        """The whole group, then nothing."""
        return max(0, self.group_size - pool.num_drawn)

    def state_dict(self) -> dict[str, Any]:
        """Nothing outlives a step."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Accept :meth:`state_dict`."""
