"""Seq-pos: stop when there are enough positives."""

from __future__ import annotations

from ada_lightning.sampling.sequential import SequentialSampler
from ada_lightning.types import ResponsePool


class PositiveSampler(SequentialSampler):
    """Resolved at ``k_pos`` positives. Cheaper than balance on easy prompts, which it may leave without a negative.

    Raises:
        ValueError: a size below 1, ``k_pos`` or ``group_size`` above ``n_max``, or blocks that do not divide ``n_max``;
            all of them in one message.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, section 3.2 (exit condition "pos", ``positive_focused`` in the code).
    """

    def __init__(self, *, k_pos: int, samples_per_round: int, n_max: int, group_size: int) -> None:
        super().__init__(samples_per_round=samples_per_round, n_max=n_max, group_size=group_size)
        self.k_pos = k_pos
        if errors := self.size_errors(k_pos=k_pos):
            raise ValueError("; ".join(errors))

    def is_resolved(self, pool: ResponsePool) -> bool:
        """Whether the quota is met."""
        return pool.num_positive >= self.k_pos
