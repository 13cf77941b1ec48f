"""A fixed group for every prompt: what GRPO and its relatives do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ada_lightning.core.options import option
from ada_lightning.core.protocols import PoolEnd, Sampler
from ada_lightning.core.records import ResponsePool
from ada_lightning.core.stopping.rule import FixedRule
from ada_lightning.methods.checked import Check, Checked, at_least


@option("sampler", "uniform")
@dataclass(kw_only=True, eq=False)
class UniformSampler(Checked, Sampler):
    """The same number of responses for every prompt, as GRPO draws them.

    All at once; responses that are no evidence are not drawn anew.
    """

    group_size: int = 4
    """Responses per prompt and step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.samples_per_round = self.group_size

    def _checks(self) -> Iterator[Check]:
        return at_least(1, group_size=self.group_size)

    def num_to_draw(self, pool: ResponsePool) -> int:
        """The whole group, then nothing."""
        return max(0, self.group_size - pool.num_drawn)

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Stop at ``group_size``."""
        return PoolEnd(FixedRule(self.group_size))
