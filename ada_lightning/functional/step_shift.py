"""How far pass rates have moved since they were believed, told by the other prompts of a step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Array = NDArray[np.float64]

_MAX_NEWTON_STEPS = 50
_LARGEST_STEP = 2.0
"""In logits: far from the solution a full Newton step may overshoot."""
_TOLERANCE = 1e-6
_NEAREST = 1e-6
"""Believed pass rates are taken to be that far from 0 and 1, or no finite shift would move them."""


def shifts_by_others(rates_G: Array, strengths_G: Array, positives_G: Array, sizes_G: Array, *, scale: float) -> Array:
    """Return for each group by how many logits the *other* groups got more right than was believed of them.

    One number ``d`` moves all believed pass rates: ``p = sigmoid(logit(m) + d)``. It maximises the likelihood of the
    other groups' counts, each counted as ``n (k + 1) / (n + k + 1)`` responses, the number that has the variance of a
    beta-binomial mean (n responses, a belief of strength k), under a normal prior. Concave in d, so it is unique.

    Args:
        rates_G: believed pass rates m.
        strengths_G: strengths k of the beliefs, ``alpha + beta``.
        positives_G: right answers of each group.
        sizes_G: responses of each group; groups of 0 say nothing.
        scale: standard deviation of the prior of d, in logits; above 0.

    Returns:
        Shape ``(G,)``; 0 where there are no others.

    Example:
        >>> shifts_by_others(*np.array([[0.5, 0.5], [1e9, 1e9], [4, 1], [4, 4]]), scale=100.0).round(2).tolist()
        [-1.1, 11.98]
    """
    start_G = logit(np.clip(rates_G, _NEAREST, 1 - _NEAREST))
    weights_G = sizes_G * (strengths_G + 1) / (sizes_G + strengths_G + 1)
    share_G = np.divide(positives_G, sizes_G, out=np.zeros_like(start_G), where=sizes_G > 0)
    others_GG = weights_G * (1 - np.eye(len(start_G)))  # row: of which group; column: who tells
    shifts_G = np.zeros_like(start_G)
    for _ in range(_MAX_NEWTON_STEPS):
        moved_GG = expit(start_G + shifts_G[:, None])
        slope_G = (others_GG * (share_G - moved_GG)).sum(axis=1) - shifts_G / scale**2
        curvature_G = (others_GG * moved_GG * (1 - moved_GG)).sum(axis=1) + 1 / scale**2
        step_G = np.clip(slope_G / curvature_G, -_LARGEST_STEP, _LARGEST_STEP)
        shifts_G = shifts_G + step_G
        if np.abs(step_G).max(initial=0.0) < _TOLERANCE:
            break
    return shifts_G
