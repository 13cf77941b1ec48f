"""How long responses are, and how many the length limit cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from ada_lightning.core.records import ResponseGroup


class ResponseLength(Metric):
    """Tokens per response and the share of truncated responses. Responses count equally, whatever their prompt."""

    full_state_update = False
    higher_is_better = None
    tokens: Tensor
    truncated: Tensor
    responses: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in ("tokens", "truncated", "responses"):
            self.add_state(name, default=torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, groups: Sequence[ResponseGroup]) -> None:
        """Add evaluated prompts, one group each."""
        for group in groups:
            self.tokens += sum(len(response.response_ids) for response in group.pool.responses)
            self.truncated += sum(response.is_truncated for response in group.pool.responses)
            self.responses += len(group.pool.responses)

    def compute(self) -> dict[str, Tensor]:
        """``response_tokens``, the mean, and ``truncated_ratio``; 0 before any response."""
        responses = self.responses.clamp_min(1)
        return {"response_tokens": self.tokens / responses, "truncated_ratio": self.truncated / responses}
