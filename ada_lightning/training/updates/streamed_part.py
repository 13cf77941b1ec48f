"""What of an update is there before its rollout has ended, and what makes it a part of the whole."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from ada_lightning.core.records import ResponseGroup
from ada_lightning.training.batch import BatchCounts, ComputedPart
from ada_lightning.training.losses.terms import LossReduction
from ada_lightning.training.updates.gradient_sum import GradientSum

NOT_DIVIDED = BatchCounts(num_prompts=1.0, num_responses=1.0, num_response_tokens=1.0)
"""Denominators until those of the whole rollout are known."""


@dataclass
class StreamedPart(ComputedPart):
    """What was computed before its rollout had ended. The gradients stand in the parameters."""

    groups: list[ResponseGroup] = field(default_factory=list)
    """Groups that need not be computed again, those without a signal included."""
    sum: GradientSum = field(default_factory=GradientSum)
    """Of parts that are divided by :data:`NOT_DIVIDED`."""

    def factor(self, reduction: LossReduction, counts: BatchCounts) -> float:
        """Return what divides the sum by the denominators of the whole rollout.

        Raises:
            RuntimeError: the rule divides different responses by different functions of the denominators.
        """
        if not self.microbatches:
            return 1.0
        pairs = [
            (reduction.token_weights(part, counts).double(), reduction.token_weights(part, NOT_DIVIDED).double())
            for part in self.microbatches
        ]
        factors = torch.cat([wanted_B[had_B > 0] / had_B[had_B > 0] for wanted_B, had_B in pairs])
        if not factors.allclose(factors[:1], rtol=1e-5, atol=0.0):  # float32
            raise RuntimeError(
                f"rollout.stream_gradients: {type(reduction).__name__} does not divide all responses alike, so "
                "gradients cannot be scaled once its denominators are known; use rollout.stream_gradients=false"
            )
        return float(factors[0]) if len(factors) else 1.0
