"""With which factor each range of pass rates really pulls on the policy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from ada_lightning.core.batch import Microbatch

EDGES = (0.0, 0.125, 0.25, 0.5, 0.75, 0.875)
"""Lower ends of the bins of a pool's mean."""


class EffectiveWeight(Metric):
    """Mean over prompts of ``sum of A / p over positives - sum of A / q over negatives``, by bin of the pool's mean.

    That sum is the factor on grad p that a prompt's kept responses have, as far as the pool's mean shows p: about
    ``f'(p)`` for an estimator of objective f. Only prompts with both classes are counted. Every response brings its
    part, so the figure does not depend on how responses were split into microbatches or ranks.
    """

    full_state_update = False
    weight: Tensor
    prompts: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in ("weight", "prompts"):
            self.add_state(name, default=torch.zeros(len(EDGES), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, microbatch: Microbatch, advantages_B: Tensor) -> None:
        """Add a microbatch's responses.

        Args:
            microbatch: of the responses.
            advantages_B: their advantages. Shape ``(B,)``.
        """
        rate_B = microbatch.num_positive_B / microbatch.num_sampled_B
        is_mixed_B = (rate_B > 0) & (rate_B < 1)
        pull_B = torch.where(microbatch.is_positive_B, advantages_B / rate_B, -advantages_B / (1 - rate_B))
        edges = torch.tensor(EDGES[1:], device=rate_B.device)
        bin_B = torch.bucketize(rate_B, edges, right=True)[is_mixed_B]
        self.weight.index_add_(0, bin_B, pull_B[is_mixed_B].double())
        self.prompts.index_add_(0, bin_B, (1.0 / microbatch.group_size_B)[is_mixed_B].double())

    def compute(self) -> dict[str, Tensor]:
        """``weight/pass_rate_from_<lower end>`` of every bin that has prompts."""
        return {
            f"weight/pass_rate_from_{edge:g}": self.weight[index] / self.prompts[index]
            for index, edge in enumerate(EDGES)
            if self.prompts[index] > 0
        }
