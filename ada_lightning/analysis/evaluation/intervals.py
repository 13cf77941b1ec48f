"""How far a mean over prompts can be trusted: a t interval, with one more prompt at either end of the range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

CONFIDENCE = 0.95
MIN_PROMPTS = 5
"""A figure has no interval where a set has fewer prompts with it."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over prompts with its interval."""

    mean: float
    low: float | None
    """None where a set has fewer than :data:`MIN_PROMPTS` prompts with the figure."""
    high: float | None
    """None where ``low`` is."""
    num_prompts: int
    """Prompts that have the figure."""


def estimate_means(values_by_set: Sequence[Floats], weights: Sequence[float], ends: Floats) -> list[Estimate]:
    """Estimate the weighted mean of the sets' means, with a 95 % interval, for every figure.

    Prompts are what was drawn at random; the responses of a prompt go with it, so their noise is inside. A figure that
    is not a number for some prompts is a mean over the others.

    The interval is Student's, as if each set had two more prompts, one at each end of the figure's range. So it has a
    width where all prompts agree, and pass rates that are nearly all 0 do not make it too narrow (Agresti and Caffo
    2000 have this for shares). Its centre is the mean of all prompts and of two more of their average weight. Variances
    of sets add up (degrees of freedom: Welch 1947). ``python -m research.audit.coverage --evaluation`` counts how often
    it holds the truth.

    Args:
        values_by_set: one array per set, shape ``(prompts, figures)``.
        weights: one per set, not negative, not all 0. Sets of weight 0 are left out.
        ends: lowest and highest value that each figure of a prompt can have. Shape ``(2, figures)``.

    Returns:
        One per figure; its mean is not a number where some set has no prompt with it.

    Raises:
        ValueError: there is no set, one is empty, figures differ in number, or a value is outside of its range.
    """
    if not values_by_set or not all(len(values) for values in values_by_set):
        raise ValueError(f"an estimate needs prompts in every set; got {[len(values) for values in values_by_set]}")
    if len({values.shape[1] for values in (*values_by_set, ends)}) > 1:
        raise ValueError(f"sets with different figures: {[values.shape[1] for values in values_by_set]}")
    lowest, highest = ends
    shares = np.asarray(weights, float)[np.asarray(weights) > 0, None] / np.sum(weights)
    used = [(of - lowest) / (highest - lowest) for of, weight in zip(values_by_set, weights, strict=True) if weight > 0]
    if any(np.nanmin(of, initial=0.0) < 0 or np.nanmax(of, initial=1.0) > 1 for of in used):
        raise ValueError(f"a figure is outside of its range; ranges: {ends.T.tolist()}")
    numbers = np.array([(~np.isnan(of)).sum(axis=0) for of in used])
    sums, squares = (np.array([np.nansum(of**power, axis=0) for of in used]) for power in (1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):  # of figures that too few prompts have
        mean = (shares * sums / numbers).sum(axis=0)
        one = (shares**2 / numbers).sum(axis=0)  # one prompt's part of the mean, averaged with the same parts
        centre = (mean + one) / (1 + 2 * one)
        more = numbers + 2
        errors = shares**2 * (squares + 1 - (sums + 1) ** 2 / more) / (more - 1) / more
        freedom = errors.sum(axis=0) ** 2 / (errors**2 / (numbers - 1)).sum(axis=0)
        margin = student.ppf((1 + CONFIDENCE) / 2, freedom) * np.sqrt(errors.sum(axis=0))
    scaled = [np.clip(centre - margin, 0, 1), mean, np.clip(centre + margin, 0, 1)]
    is_enough = numbers.min(axis=0) >= MIN_PROMPTS
    return [
        Estimate(value, low if enough else None, high if enough else None, int(number))
        for (low, value, high), enough, number in zip(
            (lowest + (highest - lowest) * np.array(scaled)).T.tolist(), is_enough, numbers.sum(axis=0), strict=True
        )
    ]
