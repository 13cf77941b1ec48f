"""How long responses are: the quantiles that a mean hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .rollout_listener import RolloutListener

if TYPE_CHECKING:
    from ada_lightning.core.step_records import RolloutResult

QUANTILES = (10, 50, 90)
"""Percent of responses that are shorter."""


class ResponseLengths(RolloutListener):
    """Logs ``rollout/response_tokens_p10``, ``_p50`` and ``_p90``: tokens of the step's responses that count.

    A run that learns to ramble, or to stop early, shows in the outer quantiles first.
    """

    def rollout_figures(self, result: RolloutResult) -> dict[str, float]:
        """Return the quantiles of a step; none for a step without responses."""
        lengths = [response.num_tokens for group in result.groups for response in group.pool.responses]
        if not lengths:
            return {}
        values = np.percentile(lengths, QUANTILES)
        return {
            f"rollout/response_tokens_p{percent}": float(value)
            for percent, value in zip(QUANTILES, values, strict=True)
        }
