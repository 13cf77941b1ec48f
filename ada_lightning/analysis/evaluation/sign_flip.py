"""Could the difference of two models on the same prompts be chance: a sign-flip permutation test."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NUM_FLIPS = 10_000
_CHUNK = 1000
_RELATIVE_TIE = 1e-9
"""Sums of flipped differences closer than this to the observed one count as equal to it."""


def sign_flip_p_value(contributions: NDArray[np.float64], *, seed: int, num_flips: int = NUM_FLIPS) -> float:
    """Two-sided p-value of ``sum(contributions)`` where, without a true difference, each sign is a coin flip.

    The null hypothesis is that the two models are exchangeable on every prompt. All sign patterns are counted where
    they are at most ``num_flips``; otherwise that many are drawn, and the observed one is counted with them, so that
    the p-value is never 0 and never too small (Phipson and Smyth 2010).

    Args:
        contributions: what each prompt adds to the difference. Shape ``(prompts,)``.
        seed: of the drawn patterns.
        num_flips: patterns to draw.

    Returns:
        In (0, 1]; 1 where no prompt differs.

    Example:
        >>> sign_flip_p_value(np.array([0.5, 0.25, 0.25, 0.0]), seed=0)
        0.25
    """
    differing = contributions[contributions != 0]
    if not len(differing):
        return 1.0
    observed = abs(differing.sum())
    bound = observed - _RELATIVE_TIE * float(np.abs(differing).sum())
    if 2 ** len(differing) <= num_flips:
        patterns = np.arange(2 ** len(differing))[:, None] >> np.arange(len(differing))
        return float((np.abs(_flipped(patterns, differing)) >= bound).mean())
    generator = np.random.default_rng(seed)
    num_extreme = 0
    for start in range(0, num_flips, _CHUNK):
        size = min(_CHUNK, num_flips - start)
        patterns = generator.integers(0, 2, (size, len(differing)), dtype=np.int8)
        num_extreme += int((np.abs(_flipped(patterns, differing)) >= bound).sum())
    return (num_extreme + 1) / (num_flips + 1)


def _flipped(patterns: NDArray[np.integer], differing: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums with the sign of a difference turned where its pattern has a 1 in the lowest bit."""
    return (1 - 2 * (patterns & 1)).astype(float) @ differing
