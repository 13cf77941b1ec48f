"""Gaussian processes over logits of pass rates, seen through counts of right answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.special import expit

Array = NDArray[np.float64]

_MAX_NEWTON_STEPS = 50
_LARGEST_STEP = 2.0
"""In logits, of one Newton step: far from the solution a full one may overshoot."""
_TOLERANCE = 1e-4
"""In logits, of the last step; convergence is quadratic, so what is left is far smaller."""
_SMALLEST_CURVATURE = 1e-9
_LEAST_STRENGTH, _MOST_STRENGTH = 1e-2, 1e6
_SMALLEST_RATE = 1e-12
_NODES_Q, _WEIGHTS_Q = hermegauss(32)


class Sites(NamedTuple):
    """Factors ``exp(-W f^2 / 2 + b f)`` of the logits f of V visits, in place of their binomial likelihoods."""

    curvature_V: Array
    """W, not negative."""
    slope_V: Array
    """b."""


@dataclass(frozen=True)
class ProcessFit:
    """A normal distribution of the logits of V visits after their counts were seen, as it is needed for prediction."""

    sites: Sites
    root_VV: Array
    """Lower Cholesky factor of ``I + W^1/2 K W^1/2``, K the covariance before anything was seen."""
    weights_V: Array
    """What each visit adds to an expected logit, by its covariance with it."""
    logits_V: Array
    """Its means."""

    @classmethod
    def of(cls, covariance_VV: Array, sites: Sites) -> ProcessFit:
        """Solve for what stands for the counts; the same arguments give the same fit to the last bit.

        Args:
            covariance_VV: of the logits before anything was seen, positive semi-definite.
            sites: one for each visit.
        """
        half_V = np.sqrt(sites.curvature_V)
        root_VV = cholesky(np.eye(len(half_V)) + half_V[:, None] * covariance_VV * half_V, lower=True)
        inner_V = solve_triangular(root_VV, half_V * (covariance_VV @ sites.slope_V), lower=True)
        weights_V = sites.slope_V - half_V * solve_triangular(root_VV, inner_V, lower=True, trans="T")
        return cls(sites, root_VV, weights_V, covariance_VV @ weights_V)

    def predicted(self, covariance_MV: Array, variance_M: Array) -> tuple[Array, Array]:
        """Return means and variances of M further logits.

        Args:
            covariance_MV: of each of them with those of the visits.
            variance_M: of each before any visit.
        """
        explained_VM = solve_triangular(self.root_VV, (covariance_MV * np.sqrt(self.sites.curvature_V)).T, lower=True)
        return covariance_MV @ self.weights_V, np.maximum(variance_M - (explained_VM**2).sum(axis=0), 0.0)


def fit_laplace(
    covariance_VV: Array, positives_V: Array, sizes_V: Array, *, start_V: Array | None = None
) -> tuple[ProcessFit, float]:
    """Find the most likely logits of visits by Newton's method; the likelihood is binomial and the prior of mean 0.

    The normal distribution about them (Laplace's approximation) is too moderate: a posterior of responses that are all
    right has most of its mass beyond its mode
    (:func:`~ada_lightning.methods.estimators.expectation_propagation.fit_moments`).

    Args:
        covariance_VV: of the logits before anything was seen, positive semi-definite.
        positives_V: right answers of each visit.
        sizes_V: responses of each visit.
        start_V: logits to start from, such as those under a prior that is much the same; 0 unless given.

    Returns:
        The normal distribution about them, and the logarithm of the chance of the counts under the prior, without the
        binomial coefficients; approximate.

    Source:
        Rasmussen and Williams 2006, algorithms 3.1 and 3.2, with binomial counts instead of single outcomes.
    """
    logits_V = np.zeros(len(sizes_V)) if start_V is None else start_V
    for _ in range(_MAX_NEWTON_STEPS):
        rates_V = expit(logits_V)
        curvature_V = np.maximum(sizes_V * rates_V * (1 - rates_V), _SMALLEST_CURVATURE)
        slope_V = curvature_V * logits_V + positives_V - sizes_V * rates_V
        fit = ProcessFit.of(covariance_VV, Sites(curvature_V, slope_V))
        step_V = fit.logits_V - logits_V
        length = np.abs(step_V).max(initial=0.0)
        logits_V = logits_V + step_V * min(1.0, _LARGEST_STEP / max(length, _TOLERANCE))
        if length < _TOLERANCE:
            break
    log_likelihood = float((positives_V * logits_V - sizes_V * np.logaddexp(0.0, logits_V)).sum())
    log_evidence = log_likelihood - float(logits_V @ fit.weights_V) / 2 - float(np.log(np.diag(fit.root_VV)).sum())
    return fit, log_evidence


def beta_of_logit(mean_M: Array, variance_M: Array) -> tuple[Array, Array]:
    """Return alpha and beta of the Beta distributions with the mean and variance of ``sigmoid(normal)``.

    Example:
        >>> alpha, beta = beta_of_logit(np.array([0.0]), np.array([1.0]))
        >>> float(alpha[0].round(2)), float(beta[0].round(2))
        (2.38, 2.38)
    """
    logits_MQ = mean_M[:, None] + np.sqrt(variance_M)[:, None] * _NODES_Q
    share_Q = _WEIGHTS_Q / _WEIGHTS_Q.sum()
    rates_MQ, wrong_MQ = expit(logits_MQ), expit(-logits_MQ)  # 1 - rate would be 0 for the largest logits
    rate_M, wrong_M = (np.maximum(each_MQ @ share_Q, _SMALLEST_RATE) for each_MQ in (rates_MQ, wrong_MQ))
    spread_M = np.maximum((rates_MQ - rate_M[:, None]) ** 2 @ share_Q, np.finfo(float).tiny)
    strength_M = np.clip(rate_M * wrong_M / spread_M - 1, _LEAST_STRENGTH, _MOST_STRENGTH)
    return rate_M * strength_M, wrong_M * strength_M
