"""A Beta prior for prompts never seen, fitted to the prompts seen lately."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from ada_lightning.core.records import Belief

_MIN_POOLS = 16
"""Fewer outcomes than this say too little: the uniform prior stays."""


def fit_pooled_prior(outcomes: Sequence[tuple[int, int]]) -> Belief:
    """Empirical Bayes: the Beta distribution under which the outcomes are most likely.

    The likelihood of counts at a stopping time does not depend on the stopping rule, so adaptively sampled pools may go
    in as they are. Searched on a fixed grid of means and strengths: deterministic, and fine enough for a prior.

    Args:
        outcomes: (positives, responses) of pools.

    Returns:
        The best prior, or Beta(1, 1) below 16 outcomes.

    Example:
        >>> round(fit_pooled_prior([(0, 8), (8, 8)] * 20).mean, 6)
        0.5
    """
    if len(outcomes) < _MIN_POOLS:
        return Belief()
    positives_N, sizes_N = np.array(outcomes, dtype=float).T
    alpha_G, beta_G = _grid()
    log_likelihood_G = betaln(alpha_G[:, None] + positives_N, beta_G[:, None] + sizes_N - positives_N).sum(
        axis=1
    ) - len(outcomes) * betaln(alpha_G, beta_G)
    best = int(np.argmax(log_likelihood_G))
    return Belief(float(alpha_G[best]), float(beta_G[best]))


@lru_cache(maxsize=1)
def _grid() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    means = np.concatenate([[0.01, 0.02, 0.03], np.linspace(0.05, 0.95, 19), [0.97, 0.98, 0.99]])
    strengths = 2.0 ** np.arange(-3, 6)
    alpha_G, strength_G = (axis.ravel() for axis in np.meshgrid(means, strengths))
    return alpha_G * strength_G, (1 - alpha_G) * strength_G
