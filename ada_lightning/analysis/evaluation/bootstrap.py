"""How far a mean over prompts can be trusted: ``scipy.stats.bootstrap`` over prompts, within each set."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import DegenerateDataWarning, bootstrap

CONFIDENCE = 0.95
NUM_RESAMPLES = 10_000
_BATCH = 1000
"""Resamples held at once: 12 MB of counts for 1,500 prompts."""
_DECIMALS = 10
"""Means that differ behind this one are equal: rounding must not break the ties of discrete figures."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over prompts with its interval."""

    mean: float
    low: float
    high: float
    num_prompts: int
    """Prompts that have the figure."""


def bootstrap_means(
    values_by_set: Sequence[Floats],
    weights: Sequence[float],
    *,
    seed: int,
    num_resamples: int = NUM_RESAMPLES,
) -> list[Estimate]:
    """Estimate the weighted mean of the sets' means, with BCa intervals (Efron 1987), for every figure.

    Prompts are what was drawn at random; the responses of a prompt go with it, so their noise is inside. Sets are
    strata: each is resampled by itself. A figure that is not a number for some prompts is a mean over the others.

    Args:
        values_by_set: one array per set, shape ``(prompts, figures)``.
        weights: one per set, not negative, not all 0. Sets of weight 0 are left out.
        seed: of the resampling.
        num_resamples: resamples of each set.

    Returns:
        One per figure; not a number where some set has no prompt with it.

    Raises:
        ValueError: there is no set, one is empty, figures differ in number, or a setting is out of range.
    """
    if not values_by_set or not all(len(values) for values in values_by_set):
        raise ValueError(f"a bootstrap needs prompts in every set; got {[len(values) for values in values_by_set]}")
    if len({values.shape[1] for values in values_by_set}) > 1:
        raise ValueError(f"sets with different figures: {[values.shape[1] for values in values_by_set]}")
    if num_resamples < 100:
        raise ValueError(f"num_resamples must be at least 100 for a 95 % interval; got {num_resamples}")
    shares = np.asarray(weights, float) / np.sum(weights)
    used = [(share, values) for share, values in zip(shares, values_by_set, strict=True) if share > 0]
    # Figures that the same prompts have share their resamples: nearly always that is all of them.
    patterns = np.concatenate([~np.isnan(values) for _, values in used])
    estimates: dict[int, Estimate] = {}
    for pattern in np.unique(patterns, axis=1).T:
        figures = np.flatnonzero((patterns == pattern[:, None]).all(axis=0))
        known = [(share, values[~np.isnan(values[:, figures[0]])][:, figures]) for share, values in used]
        bounds = _interval(known, seed=seed, num_resamples=num_resamples)
        for figure, mean, low, high in zip(figures, *bounds, strict=True):
            estimates[int(figure)] = Estimate(float(mean), float(low), float(high), int(pattern.sum()))
    return [estimates[figure] for figure in range(patterns.shape[1])]


def _interval(known: Sequence[tuple[float, Floats]], *, seed: int, num_resamples: int) -> tuple[Floats, Floats, Floats]:
    """Mean, low and high end of each figure, shape ``(figures,)``; every value is a number."""
    if not all(len(values) for _, values in known):
        missing = np.full(known[0][1].shape[1], np.nan)
        return missing, missing, missing
    mean = np.sum([share * values.mean(axis=0) for share, values in known], axis=0)
    varied = [(share, values) for share, values in known if len(values) > 1]  # a single prompt is a constant
    if not varied:
        return mean, mean, mean

    def weighted(*rows: NDArray[np.int64], axis: int) -> Floats:
        parts = [
            share * resampled_sums(values, drawn) / drawn.shape[-1]
            for (share, values), drawn in zip(varied, rows, strict=True)
        ]
        return np.round(np.sum(parts, axis=0), _DECIMALS)

    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", DegenerateDataWarning)  # of figures that are the same for all prompts
        found = bootstrap(
            [np.arange(len(values)) for _, values in varied],
            weighted,
            n_resamples=num_resamples,
            batch=_BATCH,
            confidence_level=CONFIDENCE,
            method="BCa",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    constant = np.sum([share * values[0] for share, values in known if len(values) == 1], axis=0)
    low, high = found.low + constant, found.high + constant
    return mean, np.where(np.isnan(low), mean, low), np.where(np.isnan(high), mean, high)


def resampled_sums(values: Floats, rows: NDArray[np.int64]) -> Floats:
    """Sums over drawn rows, shape ``(..., rows)``, with one product of matrices. Shape ``(figures, ...)``."""
    drawn = rows.reshape(-1, rows.shape[-1])
    cells = drawn + np.arange(len(drawn))[:, None] * len(values)
    counts = np.bincount(cells.ravel(), minlength=len(drawn) * len(values)).reshape(len(drawn), len(values))
    sums = counts.astype(float) @ values
    return np.moveaxis(sums.reshape(*rows.shape[:-1], -1), -1, 0)
