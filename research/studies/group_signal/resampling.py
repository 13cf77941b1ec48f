"""Intervals of figures that are no means: percentile bootstrap over prompts."""

from __future__ import annotations

import numpy as np

from research.studies.group_signal.rates import Floats

NUM_RESAMPLES = 10_000
SEED = 0


def resampled_means(values_PC: Floats) -> Floats:
    """Means over resamples of prompts; the responses of a prompt go with it, so their noise is inside.

    Args:
        values_PC: figures of each prompt. Shape ``(prompts, columns)``.

    Returns:
        Shape ``(NUM_RESAMPLES, columns)``.
    """
    num_prompts = len(values_PC)
    shares = np.random.default_rng(SEED).multinomial(num_prompts, [1 / num_prompts] * num_prompts, NUM_RESAMPLES)
    return np.asarray(shares @ values_PC / num_prompts)


def with_interval(figure: float, resampled_B: Floats) -> dict[str, float]:
    """A figure with its 95 % interval."""
    low, high = np.quantile(resampled_B, [0.025, 0.975])
    return {"mean": figure, "low": float(low), "high": float(high)}
