"""The distribution of pass rates behind counts: what raw shares would show with infinitely many responses a prompt."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ada_lightning.analysis.report.prompts import BINS, EDGES

GRID = np.sin(np.linspace(0.0, np.pi / 2, 121)) ** 2
"""Pass rates that a mixture may put weight on: 0, 1 and denser near both, where a binomial is narrower."""
_NUM_STEPS = 3000
_SETTLED = 1e-10
"""Gain in mean log-likelihood per group, in nats, below which EM stops."""

Floats = NDArray[np.float64]
__all__ = ["BINS", "GRID", "Mixture", "fit_mixture", "raw_shares"]


@dataclass(frozen=True)
class Mixture:
    """Weights of pass rates, shape ``(121,)``, that add up to 1."""

    weights: Floats

    def shares(self) -> list[float]:
        """Return the weight in each class of difficulty, :data:`BINS`."""
        found = [0.0] * len(BINS)
        for rate, weight in zip(GRID, self.weights, strict=True):
            found[bisect_right(EDGES, rate)] += float(weight)
        return found

    def posterior(self, num_positive: int, num_negative: int) -> Floats:
        """Return the weights of a prompt with these counts; equal for every order of its responses."""
        chances = self.weights * GRID**num_positive * (1.0 - GRID) ** num_negative
        total = chances.sum()
        return chances / total if total > 0 else self.weights

    def signal_share(self, top: float) -> float:
        """Share of all p (1 - p) that the prompts with the most of it hold, ``top`` of them; 0 where there is none."""
        signal = GRID * (1.0 - GRID)
        order = np.argsort(-signal, kind="stable")
        mass = np.cumsum(self.weights[order])
        taken = np.clip(top - np.concatenate([[0.0], mass[:-1]]), 0.0, self.weights[order])
        total = float(self.weights @ signal)
        return float(taken @ signal[order]) / total if total > 0 else 0.0


def fit_mixture(counts: Iterable[tuple[int, int]]) -> Mixture:
    """Fit the distribution of pass rates under which counts are the most likely, by EM on :data:`GRID`.

    Whether a stopping rule chose the number of responses does not matter: it adds a factor without p to a likelihood.

    Args:
        counts: (positives, negatives) of each group.

    Source:
        Laird 1978, "Nonparametric maximum likelihood estimation of a mixing distribution".

    Example:
        >>> mixture = fit_mixture([(0, 8)] * 50 + [(4, 4)] * 50)
        >>> round(float(mixture.weights @ GRID), 2)  # the mean is kept
        0.25
    """
    table = Counter(pair for pair in counts if sum(pair))
    weights = np.full(len(GRID), 1.0 / len(GRID))
    if not table:
        return Mixture(weights)
    points = np.array(list(table), float)
    share_T = np.array(list(table.values()), float) / table.total()
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(GRID), np.log1p(-GRID)
    with np.errstate(invalid="ignore"):
        log_chance_TK = np.nan_to_num(points[:, :1] * log_p, nan=0.0) + np.nan_to_num(points[:, 1:] * log_q, nan=0.0)
    chance_TK = np.exp(log_chance_TK - log_chance_TK.max(axis=1, keepdims=True))
    before = -np.inf
    for _ in range(_NUM_STEPS):
        total_T = chance_TK @ weights
        weights = weights * (chance_TK.T @ (share_T / total_T))
        after = float(share_T @ np.log(total_T))
        if after - before < _SETTLED:
            break
        before = after
    return Mixture(weights / weights.sum())


def raw_shares(counts: Iterable[tuple[int, int]]) -> list[float]:
    """Return the share of groups in each class by P / n: too wide, since chance alone moves P."""
    found = [0.0] * len(BINS)
    rates = [positives / (positives + negatives) for positives, negatives in counts if positives + negatives]
    for rate in rates:
        found[bisect_right(EDGES, rate)] += 1.0 / len(rates)
    return found
