"""A fixed group for every prompt: what GRPO and its relatives do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ada_lightning.core.records import ResponsePool
from ada_lightning.core.stopping.rule import FixedRule, StoppingRule


class UniformSampler:
    """Draws ``group_size`` responses per prompt at once. Responses that are no evidence are not drawn anew.

    Raises:
        ValueError: ``group_size`` below 1.
    """

    budget_per_step = 0

    def __init__(self, *, group_size: int) -> None:
        if group_size < 1:
            raise ValueError(f"group_size must be at least 1; got {group_size}")
        self.group_size = group_size
        self.samples_per_round = group_size

    @property
    def plans_nothing(self) -> bool:
        """Whether prompts may join a step under way; not those of a subclass that does divide a step."""
        return type(self).plan is UniformSampler.plan

    def plan(self, pools: Sequence[ResponsePool]) -> None:
        """Every prompt gets the same."""

    def num_to_draw(self, pool: ResponsePool) -> int:
        """The whole group, then nothing."""
        return max(0, self.group_size - pool.num_drawn)

    def stopping_rule(self, pool: ResponsePool) -> StoppingRule:
        """Stop at ``group_size``."""
        return FixedRule(self.group_size)

    def observe(self, pools: Sequence[ResponsePool]) -> None:
        """Nothing to learn."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing outlives a step."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Accept :meth:`state_dict`."""
