"""Sample a prompt block by block until its rewards differ by enough: an exit rule for rewards that are not binary."""

from __future__ import annotations

import math

from ada_lightning.core.protocols import PoolEnd
from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.sampling.blocks import BlockSampler


class SpreadSampler(BlockSampler):
    """Blocks of ``samples_per_round`` until highest and lowest reward are ``min_spread`` apart, or ``n_max`` are in.

    Decides on complete blocks of the launch order, as sequential sampling by counts does, and draws anew what is no
    evidence. More than counts of positives and negatives decide, so there is no stopping rule whose paths could be
    counted: ``advantage=weighted_leave_one_out`` goes with it, whose docstring says which bias remains. With rewards of
    0 and 1 and a ``min_spread`` of 1 it draws what the balance sampler draws for quotas of one each.

    Args:
        min_spread: smallest difference between the pool's highest and lowest reward that ends sampling, in the
            reward's unit.
        samples_per_round: responses per block.
        n_max: most responses per prompt and step.
        group_size: most responses kept for the update.
        budget_per_step: most responses of a whole rollout step; 0 sets no limit.

    Raises:
        ValueError: ``min_spread`` is not a positive number, or a size is out of range; all in one message.

    Example:
        >>> from ada_lightning.core.records import Prompt, ResponsePool
        >>> sampler = SpreadSampler(min_spread=0.5, samples_per_round=4, n_max=32, group_size=8)
        >>> sampler.num_to_draw(ResponsePool(Prompt("x", ()), slot=0))
        4
    """

    def __init__(
        self, *, min_spread: float, samples_per_round: int, n_max: int, group_size: int, budget_per_step: int = 0
    ) -> None:
        self.min_spread = min_spread
        super().__init__(
            samples_per_round=samples_per_round,
            n_max=n_max,
            group_size=group_size,
            budget_per_step=budget_per_step,
        )

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Say whether rewards are far enough apart. Equal but for float rounding is enough: 0.7 - 0.4 < 0.3."""
        rewards = [response.reward for response in pool.responses]
        spread = max(rewards, default=0.0) - min(rewards, default=0.0)
        return PoolEnd(is_resolved=spread >= self.min_spread or math.isclose(spread, self.min_spread))

    def _size_errors(self) -> list[str]:
        errors = super()._size_errors()
        if not 0 < self.min_spread < math.inf:
            errors.insert(0, f"min_spread must be a positive number, in the reward's unit; got {self.min_spread}")
        return errors
