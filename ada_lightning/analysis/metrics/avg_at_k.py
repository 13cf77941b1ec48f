"""avg@k: the mean over prompts of the mean reward of k responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from ada_lightning.core.records import ResponseGroup


class AvgAtK(Metric):
    """Mean over prompts of the mean reward of the prompt's responses.

    Prompts without a single graded response do not count.
    """

    full_state_update = False
    higher_is_better = True
    mean_sum: Tensor
    num_prompts: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_state("mean_sum", default=torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("num_prompts", default=torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, groups: Sequence[ResponseGroup]) -> None:
        """Add evaluated prompts, one group each."""
        for group in groups:
            rewards = [response.reward for response in group.pool.responses]
            if rewards:
                self.mean_sum += sum(rewards) / len(rewards)
                self.num_prompts += 1

    def compute(self) -> Tensor:
        """Return a scalar in the range of the rewards; 0 before any update."""
        return self.mean_sum / self.num_prompts.clamp_min(1)
