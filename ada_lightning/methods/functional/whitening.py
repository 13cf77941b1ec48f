"""Bring the advantages of a whole rollout to mean 0 and standard deviation 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

_ROUNDING = 1e-6
"""A mean below this part of the deviation is rounding of float32: centred groups have the mean 0, and a group without
signal is to keep its advantages of 0."""


def whitened(values: Sequence[float], weights: Sequence[float], *, epsilon: float) -> list[float]:
    """Subtract the weighted mean, and divide by the weighted standard deviation plus ``epsilon``.

    Args:
        values: one per response.
        weights: how often each counts, as the number of its tokens; not negative.
        epsilon: keeps the quotient finite where nothing varies.

    Returns:
        In the order of ``values``; all 0 where they are equal, or where no more than one counts.

    Example:
        >>> [round(value, 3) for value in whitened([1.0, 0.0, 0.0, 3.0], [1.0] * 4, epsilon=0.0)]
        [0.0, -0.707, -0.707, 1.414]
    """
    total = math.fsum(weights)
    if total <= 1.0:
        return [0.0] * len(values)
    mean = math.fsum(value * weight for value, weight in zip(values, weights, strict=True)) / total
    squares = math.fsum(weight * (value - mean) ** 2 for value, weight in zip(values, weights, strict=True))
    std = math.sqrt(squares / (total - 1.0))
    if std == 0.0:
        return [0.0] * len(values)
    if abs(mean) <= _ROUNDING * std:
        mean = 0.0
    return [(value - mean) / (std + epsilon) for value in values]
