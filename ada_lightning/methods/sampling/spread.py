"""Sample a prompt block by block until its rewards differ by enough: an exit rule for rewards that are not binary."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ada_lightning.core.options import option
from ada_lightning.core.protocols import PoolEnd
from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.checked import Check
from ada_lightning.methods.sampling.blocks import BlockSampler


@option("sampler", "spread")
@dataclass(kw_only=True, eq=False)
class SpreadSampler(BlockSampler):
    """For rewards that are not binary: sample until highest and lowest are ``min_spread`` apart, at most ``n_max``.

    Decides on complete blocks of the launch order, as sequential sampling by counts does, and draws anew what is no
    evidence. More than counts of positives and negatives decide, so there is no stopping rule whose paths could be
    counted: ``advantage=weighted_leave_one_out`` goes with it, whose docstring says which bias remains. With rewards of
    0 and 1 and a ``min_spread`` of 1 it draws what the balance sampler draws for quotas of one each.

    Example:
        >>> from ada_lightning.core.records import Prompt, ResponsePool
        >>> sampler = SpreadSampler(min_spread=0.5, samples_per_round=4, n_max=32, group_size=8)
        >>> sampler.num_to_draw(ResponsePool(Prompt("x", ()), slot=0))
        4
    """

    min_spread: float = 0.5
    """Smallest difference between the pool's highest and lowest reward that ends sampling, in the reward's unit."""
    group_size: int = 8
    """Most responses kept for the update."""

    def _checks(self) -> Iterator[Check]:
        yield (
            0 < self.min_spread < math.inf,
            f"min_spread must be a positive number, in the reward's unit; got {self.min_spread}",
        )
        yield from super()._checks()

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Say whether rewards are far enough apart. Equal up to float rounding is enough: 0.7 - 0.4 < 0.3."""
        rewards = [response.reward for response in pool.responses]
        spread = max(rewards, default=0.0) - min(rewards, default=0.0)
        return PoolEnd(is_resolved=spread >= self.min_spread or math.isclose(spread, self.min_spread))
