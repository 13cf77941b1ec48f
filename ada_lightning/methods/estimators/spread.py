"""How much responses to a prompt differ among themselves, where pass rates of similar prompts do not say.

Prompts of which half of all responses are right may be answered right half of the time each, or half of them always and
the others never. A pass rate that is told from similar prompts is one half in both cases, and a group of responses has
a signal in the first alone. A policy goes from the first to the second while it trains: it becomes sure of itself, of
what it trains on most.

Source: ours. What it changes: ``python -m research.studies.real_model.calibration``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ada_lightning.methods.estimators.logit_prior import Between, LogitPrior

Array = NDArray[np.float64]

_NOISE = 0.12
"""Standard deviation of what four responses show of p (1 - p), enumerated: 0.10 at p = 1/2, 0.13 at 1/4 and 1/10."""
_LEAST, _MOST = 0.02, 0.98
"""Shares of a mean's m (1 - m) between which E[p (1 - p)] is kept: there is a Beta distribution for each of them."""


def shown_spread(positives: float, responses: float) -> float:
    """Return the estimate of p (1 - p) without bias that so many right responses give; not a number below two.

    Example:
        >>> shown_spread(2, 4), shown_spread(4, 4)
        (0.3333333333333333, 0.0)
    """
    if responses < 2:
        return float("nan")
    return positives * (responses - positives) / (responses * (responses - 1))


def expected_spread(alpha_P: Array, beta_P: Array) -> Array:
    """Return E[p (1 - p)] of Beta distributions. Shape ``(P,)``."""
    total_P = alpha_P + beta_P
    return alpha_P * beta_P / (total_P * (total_P + 1.0))


def with_spread(alpha_P: Array, beta_P: Array, spread_P: Array) -> tuple[Array, Array]:
    """Return Beta distributions of the same means whose E[p (1 - p)] are given, as far as those means allow.

    Returns:
        alpha and beta, shapes ``(P,)``.

    Example:
        >>> alpha, beta = with_spread(np.array([2.0]), np.array([2.0]), np.array([0.05]))
        >>> float(alpha[0] / (alpha[0] + beta[0])), round(float(expected_spread(alpha, beta)[0]), 6)
        (0.5, 0.05)
    """
    mean_P = alpha_P / (alpha_P + beta_P)
    most_P = mean_P * (1.0 - mean_P)
    spread_P = np.clip(spread_P, _LEAST * most_P, _MOST * most_P)
    total_P = spread_P / (most_P - spread_P)
    return mean_P * total_P, (1.0 - mean_P) * total_P


@dataclass(frozen=True)
class SpreadFit:
    """Regression on by how much visits showed more spread than was expected of them, by a Gaussian process.

    Args:
        prior: of what is regressed on.
        weights_V: of the V visits, 0 where one showed nothing. Shape ``(V,)``.
    """

    prior: LogitPrior
    weights_V: Array

    @classmethod
    def of(cls, prior: LogitPrior, excess_V: Array, between: Between) -> SpreadFit:
        """Fit to visits.

        Args:
            prior: of what is regressed on.
            excess_V: of each visit; not a number where it showed none. Shape ``(V,)``.
            between: the visits with each other. Shapes ``(V, V)``.
        """
        is_shown_V = np.isfinite(excess_V)
        covariance_VV = prior.covariance(between)[np.ix_(is_shown_V, is_shown_V)]
        covariance_VV[np.diag_indices_from(covariance_VV)] += _NOISE**2
        weights_V = np.zeros(len(excess_V))
        weights_V[is_shown_V] = np.linalg.solve(covariance_VV, excess_V[is_shown_V])
        return cls(prior, weights_V)

    def excess(self, between: Between) -> Array:
        """Return what to add to the expected spread of prompts. Shape ``(P,)``.

        Args:
            between: the prompts with the visits. Shapes ``(P, V)``.
        """
        return self.prior.covariance(between) @ self.weights_V
