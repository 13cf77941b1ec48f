"""What a bandit sees of each response before it trains."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.selection.magnitude import pool_advantages

CONTEXTS = (
    "constant",
    "advantage",
    "size of the advantage",
    "share of positives in the pool",
    "signal of the pool",
    "share of its class in the pool",
    "surprise to the belief",
    "length",
    "truncated",
    "surprisal",
)
"""Names of the columns that :func:`response_contexts` returns."""
_LARGEST_ADVANTAGE = 3.0
_LARGEST_SURPRISAL = 4.0
"""Nats per token."""


def response_contexts(pool: ResponsePool) -> NDArray[np.float64]:
    """Describe every response of a pool by numbers in [-1, 1], the same ones for rewards and lengths of any unit.

    Advantage and its size are over the pool's standard deviation, cut at 3; the pool's signal is ``4 p (1 - p)``; the
    surprise is 1 or 0 for the class minus the pass rate believed before the step; the length is relative to the pool's
    mean, cut at twice that; surprisal is the engine's mean negative log-probability per token, cut at 4 nats, whose
    mean over a policy's responses is its entropy.

    Returns:
        Shape ``(N, 10)``, rows in launch order; columns as in :data:`CONTEXTS`.
    """
    rate = pool.num_positive / max(pool.num_sampled, 1)
    mean_length = sum(response.num_tokens for response in pool.responses) / max(pool.num_sampled, 1)
    rows = []
    for response, advantage in zip(pool.responses, pool_advantages(pool, normalize_std=True), strict=True):
        scaled = max(-1.0, min(1.0, advantage / _LARGEST_ADVANTAGE))
        length = response.num_tokens
        surprisal = -sum(response.sampled_logprobs) / max(length, 1)
        rows.append(
            [
                1.0,
                scaled,
                abs(scaled),
                rate,
                4.0 * rate * (1.0 - rate),
                rate if response.is_positive else 1.0 - rate,
                float(response.is_positive) - pool.belief.mean,
                max(-1.0, min(1.0, length / mean_length - 1.0)) if mean_length else 0.0,
                float(response.is_truncated),
                max(0.0, min(1.0, surprisal / _LARGEST_SURPRISAL)),
            ]
        )
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(CONTEXTS))
