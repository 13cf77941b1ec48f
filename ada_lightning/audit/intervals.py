"""Figures of a log with their intervals, and how they are spelt: prompts are resampled with all drawn for them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import DegenerateDataWarning, bootstrap, norm
from scipy.stats import t as student

CONFIDENCE = 0.95
NUM_RESAMPLES = 2000
MIN_PROMPTS = 30
"""With fewer prompts that have a signal, there are figures and no intervals."""
MAX_BCA_PROMPTS = 4000
"""Above, intervals are percentiles: the correction of BCa vanishes as 1/prompts, and its cost grows as prompts^2."""
_MAX_CELLS = 4_000_000
"""Counts of resamples held at once: 32 MB."""
_DECIMALS = 12
_ROUNDING = 1e-9
"""Intervals that are narrower, as a part of the figure, are those of a constant."""

Floats = NDArray[np.float64]
Sums = Mapping[str, Floats]
"""Sum over the prompts of each column, the same shape for all."""
Figure = Callable[[Sums], Floats]
"""A figure as a function of sums; it has to stay the same if every prompt is there twice."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, with its interval where there are enough prompts for one."""

    value: float
    low: float | None = None
    high: float | None = None


def estimate(
    columns: Mapping[str, Floats],
    figures: Mapping[str, Figure],
    *,
    with_intervals: bool = True,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
) -> dict[str, Estimate]:
    """Estimate figures, with BCa intervals (Efron 1987) over prompts, all on the same resamples.

    The order of the prompts does not matter: they are sorted by their values first.

    Args:
        columns: values by name, shape ``(prompts,)``; of all the visits of a prompt together.
        figures: functions of the summed columns, by name. Not a number where a denominator is 0.
        with_intervals: False for figures alone.
        seed: of the resampling.
        num_resamples: how often.

    Returns:
        One per figure, in their order. Without an interval where it is the same in all resamples, or is no number in
        one of them.
    """
    names = list(columns)
    values_PC = np.column_stack([columns[name] for name in names]).astype(float)
    values_PC = values_PC[np.lexsort(values_PC.T[::-1])]

    def compute(sums_C: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            sums = dict(zip(names, sums_C, strict=True))
            found = [np.broadcast_to(figure(sums), sums_C.shape[1:]) for figure in figures.values()]
        return np.round(np.asarray(found, float), _DECIMALS)

    point_F = compute(values_PC.sum(axis=0))
    if not with_intervals or len(values_PC) < 2:
        return {name: Estimate(float(value)) for name, value in zip(figures, point_F, strict=True)}

    def statistic(rows: NDArray[np.int64], axis: int) -> Floats:
        return compute(_resampled_sums(values_PC, rows))

    num_prompts = len(values_PC)
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore", DegenerateDataWarning)
        interval = bootstrap(
            (np.arange(num_prompts),),
            statistic,
            n_resamples=num_resamples,
            batch=max(1, _MAX_CELLS // num_prompts),
            confidence_level=_level(num_prompts),
            method="BCa" if num_prompts <= MAX_BCA_PROMPTS else "percentile",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    found = {}
    for name, value, low, high in zip(figures, point_F, interval.low, interval.high, strict=True):
        is_known = np.isfinite(low) and np.isfinite(high) and high - low > _ROUNDING * max(1.0, abs(value))
        found[name] = Estimate(float(value), float(low), float(high)) if is_known else Estimate(float(value))
    return found


def _level(num_prompts: int) -> float:
    """Return the level at which resamples are cut, so that few prompts have Student's quantile (Hesterberg 2015)."""
    # Resamples also spread less than new prompts would.
    quantile = math.sqrt(num_prompts / (num_prompts - 1)) * student.ppf((1 + CONFIDENCE) / 2, num_prompts - 1)
    return float(2 * norm.cdf(quantile) - 1)


def _resampled_sums(values: Floats, rows: NDArray[np.int64]) -> Floats:
    """Sums over drawn rows, shape ``(..., rows)``, with one product of matrices. Shape ``(figures, ...)``."""
    drawn = rows.reshape(-1, rows.shape[-1])
    cells = drawn + np.arange(len(drawn))[:, None] * len(values)
    counts = np.bincount(cells.ravel(), minlength=len(drawn) * len(values)).reshape(len(drawn), len(values))
    sums = counts.astype(float) @ values
    return np.moveaxis(sums.reshape(*rows.shape[:-1], -1), -1, 0)


def percent(found: Estimate) -> str:
    """Spell a share, its interval in brackets.

    Example:
        >>> percent(Estimate(0.614, 0.55, 0.672)), percent(Estimate(0.004)), percent(Estimate(float("nan")))
        ('61 % [55, 67]', '0.4 %', '-')
    """
    if not math.isfinite(found.value):
        return "-"
    digits = 0 if abs(found.value) >= 0.0995 or found.value == 0 else 1
    text = f"{100 * found.value:.{digits}f} %"
    if found.low is None or found.high is None:
        return text
    return f"{text} [{100 * found.low:.{digits}f}, {100 * found.high:.{digits}f}]"


def number(found: Estimate) -> str:
    """Spell a number with three digits that count, its interval in brackets.

    Example:
        >>> number(Estimate(3.14159, 2.5, 4.0)), number(Estimate(1234.5)), number(Estimate(0.01234))
        ('3.14 [2.50, 4.00]', '1,234', '0.0123')
        >>> number(Estimate(0.00657, -0.283, 0.589))  # as many as its interval lets count
        '0.007 [-0.283, 0.589]'
    """
    if not math.isfinite(found.value):
        return "-"
    size = max(abs(value) for value in (found.value, found.low or 0.0, found.high or 0.0, 1e-9))
    digits = max(0, 2 - math.floor(math.log10(size))) if size < 1000 else 0
    digits = min(digits, 6)
    text = f"{found.value:,.{digits}f}"
    if found.low is None or found.high is None:
        return text
    return f"{text} [{found.low:,.{digits}f}, {found.high:,.{digits}f}]"
