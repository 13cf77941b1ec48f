"""Seq-balance: stop when there are enough positives *and* enough negatives."""

from __future__ import annotations

from ada_lightning.sampling.sequential import SequentialSampler
from ada_lightning.types import ResponsePool


class BalanceSampler(SequentialSampler):
    """Resolved at ``k_pos`` positives and ``k_neg`` negatives.

    Raises:
        ValueError: a size below 1, ``k_pos + k_neg`` or ``group_size`` above ``n_max``, or blocks that do not divide
            ``n_max``; all of them in one message.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, section 3.2 (exit condition "balance").

    Example:
        >>> from ada_lightning.types import Prompt, ResponsePool
        >>> sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)
        >>> sampler.num_to_draw(ResponsePool(Prompt("x", ()), slot=0))
        4
    """

    def __init__(self, *, k_pos: int, k_neg: int, samples_per_round: int, n_max: int, group_size: int) -> None:
        super().__init__(samples_per_round=samples_per_round, n_max=n_max, group_size=group_size)
        self.k_pos = k_pos
        self.k_neg = k_neg
        if errors := self.size_errors(k_pos=k_pos, k_neg=k_neg):
            raise ValueError("; ".join(errors))

    def is_resolved(self, pool: ResponsePool) -> bool:
        """Whether both quotas are met."""
        return pool.num_positive >= self.k_pos and pool.num_negative >= self.k_neg
