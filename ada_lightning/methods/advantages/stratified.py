"""The exact estimator's plug-in relative: right weights per class, a pass rate that is only an estimate."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ada_lightning.core.batch import Microbatch
from ada_lightning.core.protocols import Compared, Objective, PassRate
from ada_lightning.methods.functional.contrast import class_contrast


class StratifiedAdvantage:
    """``c = f'(p) p (1-p)`` at an estimated pass rate, split over the kept responses of each class.

    Undoes the class mix of the selection for any sampler, but not the bias of an estimate taken at a stopping time: how
    far off that is, `python -m research.benchmarks.estimator_bias` computes. Rewards must be 0 or 1: the estimates
    average them.

    Args:
        objective: what is maximised.
        pass_rate: which estimate goes in.

    Source:
        Post-stratification; derived for Reinforce-Ada in ``docs/estimators.md``.
    """

    compares: ClassVar[Compared] = "drawn"
    needs_both_classes: ClassVar[bool] = True

    def __init__(self, *, objective: Objective, pass_rate: PassRate) -> None:
        self.objective = objective
        self.pass_rate = pass_rate

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Return ``+c / m+`` or ``-c / m-``; 0 in a pool without both classes. Shape ``(B,)``, float32.

        Raises:
            ValueError: a reward is neither 0 nor 1, or the positive threshold does not tell them apart.
        """
        _check_binary(microbatch)
        pass_rate_B = self.pass_rate(microbatch)
        is_mixed_B = (microbatch.num_positive_B > 0) & (microbatch.num_positive_B < microbatch.num_sampled_B)
        inside_B = (pass_rate_B > 0) & (pass_rate_B < 1) & is_mixed_B
        safe_B = torch.where(inside_B, pass_rate_B, 0.5)
        coefficient_B = self.objective.weight(safe_B) * safe_B * (1.0 - safe_B)
        return class_contrast(microbatch, torch.where(inside_B, coefficient_B, 0.0))


def _check_binary(microbatch: Microbatch) -> None:
    """Compare the kept rewards, and the sum over the pool, with what counting positives gives: equal for 0 and 1."""
    is_other_B = (microbatch.rewards_B != microbatch.is_positive_B) | (
        microbatch.pool_reward_sum_B != microbatch.num_positive_B
    )
    if bool(is_other_B.any()):
        raise ValueError(
            "advantage=stratified estimates pass rates from rewards of 0 and 1, with rollout.positive_threshold "
            "between them; a pool holds others, beside or instead of a kept reward of "
            f"{float(microbatch.rewards_B[is_other_B][0]):g}; use a reward of 0 and 1, or "
            "advantage=weighted_leave_one_out"
        )
