"""maj@k: how often the majority of k responses is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ada_lightning.analysis.metrics.majority import MAX_RESPONSES, majority_at_k
from ada_lightning.analysis.metrics.mean_by_k import MeanByK
from ada_lightning.core.records import Response, ResponseGroup


class MajAtK(MeanByK):
    """Mean over prompts of the exact expectation of a majority vote among k responses.

    See :func:`~ada_lightning.analysis.metrics.majority.majority_at_k` for ties and for responses without an answer.
    Where the reward tells no answers at all there is nothing to vote on: :attr:`has_answers` says so.
    """

    higher_is_better = True
    num_answers: Tensor

    def __init__(self, *, max_k: int, **kwargs: Any) -> None:
        super().__init__(max_k=max_k, **kwargs)
        self.add_state("num_answers", default=torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")

    @property
    def has_answers(self) -> bool:
        """Whether any response had an answer."""
        return bool(self.num_answers > 0)

    def update(self, groups: Sequence[ResponseGroup]) -> None:
        """Add evaluated prompts, one group each."""
        super().update(groups)
        self.num_answers += sum(response.answer is not None for group in groups for response in group.pool.responses)

    def values(self, responses: Sequence[Response]) -> NDArray[np.float64] | None:
        """maj@k of one prompt; None where it has more responses than that can be computed for."""
        if len(responses) > MAX_RESPONSES:
            return None
        return majority_at_k([r.answer for r in responses], [r.is_positive for r in responses])
