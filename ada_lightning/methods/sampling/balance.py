"""Seq-balance: stop when there are enough positives *and* enough negatives."""

from __future__ import annotations

from ada_lightning.methods.sampling.giving_up import NEVER, GivingUp
from ada_lightning.methods.sampling.sequential import SequentialSampler


class BalanceSampler(SequentialSampler):
    """Resolved at ``k_pos`` positives and ``k_neg`` negatives. Arguments as in the base class.

    Raises:
        ValueError: ``k_neg`` below 1, or what the base class rejects; all in one message.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, section 3.2 (exit condition "balance").

    Example:
        >>> from ada_lightning.core.records import Prompt, ResponsePool
        >>> sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)
        >>> sampler.num_to_draw(ResponsePool(Prompt("x", ()), slot=0))
        4
    """

    def __init__(
        self,
        *,
        k_pos: int,
        k_neg: int,
        samples_per_round: int,
        n_max: int,
        group_size: int,
        give_up: GivingUp = NEVER,
        budget_per_step: int = 0,
    ) -> None:
        super().__init__(
            k_pos=k_pos,
            k_neg=k_neg,
            samples_per_round=samples_per_round,
            n_max=n_max,
            group_size=group_size,
            give_up=give_up,
            budget_per_step=budget_per_step,
        )

    def _size_errors(self) -> list[str]:
        errors = super()._size_errors()
        return [f"k_neg must be at least 1; got {self.quota.k_neg}", *errors] if self.quota.k_neg < 1 else errors
