"""The weight that gives a kept response the share its class had in the pool."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.types import KeptResponse, Response, ResponsePool


def with_selection_weights(pool: ResponsePool, kept: Sequence[Response]) -> tuple[KeptResponse, ...]:
    """Attach ``N_s / m_s`` to each kept response of class s (positive or negative).

    Sums over the kept responses with these weights have the class mix of the pool, whatever was kept of it.
    """
    num_kept_positive = sum(response.is_positive for response in kept)
    num_kept_negative = len(kept) - num_kept_positive
    weight = {
        True: pool.num_positive / num_kept_positive if num_kept_positive else 0.0,
        False: pool.num_negative / num_kept_negative if num_kept_negative else 0.0,
    }
    return tuple(KeptResponse(response, weight[response.is_positive]) for response in kept)
