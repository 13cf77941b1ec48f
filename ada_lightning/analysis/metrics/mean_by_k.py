"""Means over prompts of figures that depend on how many responses are looked at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchmetrics import Metric

from ada_lightning.core.records import Response, ResponseGroup


class MeanByK(Metric, ABC):
    """Mean over prompts of a figure for k = 1 to ``max_k`` responses. States are sums, so any split adds up.

    A prompt whose n graded responses are fewer than ``max_k`` (failed grades that were excluded, another budget) has
    figures for k up to n and counts for those only: an estimate for more responses than there are would be biased. So
    each k has its own prompts; :attr:`num_prompts` tells how many.

    Args:
        max_k: largest k.

    Raises:
        ValueError: ``max_k`` is below 1.
    """

    full_state_update = False
    value_sum: Tensor
    """Sum over prompts. Shape ``(max_k,)``, float64."""
    num_prompts: Tensor
    """Prompts with at least k graded responses. Shape ``(max_k,)``, float64."""

    def __init__(self, *, max_k: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if max_k < 1:
            raise ValueError(f"max_k must be at least 1; got {max_k}")
        self.max_k = max_k
        for name in ("value_sum", "num_prompts"):
            self.add_state(name, default=torch.zeros(max_k, dtype=torch.float64), dist_reduce_fx="sum")

    @abstractmethod
    def values(self, responses: Sequence[Response]) -> NDArray[np.float64] | None:
        """Figures of one prompt with n >= 1 responses. Shape ``(n,)``, for k = 1 to n; None where it has none."""

    def update(self, groups: Sequence[ResponseGroup]) -> None:
        """Add evaluated prompts, one group each."""
        for group in groups:
            responses = group.pool.responses
            values = self.values(responses) if responses else None
            if values is None:
                continue
            known = torch.from_numpy(values[: self.max_k]).to(self.value_sum)
            self.value_sum[: len(known)] += known
            self.num_prompts[: len(known)] += 1

    def compute(self) -> Tensor:
        """Return the means. Shape ``(max_k,)``; not a number where no prompt has as many responses.

        torchmetrics hands a single one, of ``max_k`` = 1, over as a scalar.
        """
        return self.value_sum / self.num_prompts
