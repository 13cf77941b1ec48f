"""Seq-pos: stop when there are enough positives."""

from __future__ import annotations

from ada_lightning.methods.sampling.giving_up import NEVER, GivingUp
from ada_lightning.methods.sampling.sequential import SequentialSampler


class PositiveSampler(SequentialSampler):
    """Resolved at ``k_pos`` positives. Cheaper than balance on easy prompts, which it may leave without a negative.

    Arguments and errors as in the base class, with no quota of negatives.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, section 3.2 (exit condition "pos", ``positive_focused`` in the code).
    """

    def __init__(
        self,
        *,
        k_pos: int,
        samples_per_round: int,
        n_max: int,
        group_size: int,
        give_up: GivingUp = NEVER,
        budget_per_step: int = 0,
    ) -> None:
        super().__init__(
            k_pos=k_pos,
            k_neg=0,
            samples_per_round=samples_per_round,
            n_max=n_max,
            group_size=group_size,
            give_up=give_up,
            budget_per_step=budget_per_step,
        )
