"""Gaussian processes over logits of pass rates, seen through counts of right answers.

A fit is a normal distribution: Laplace's approximation, which is quick, or that of expectation propagation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

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
_MAX_SWEEPS = 30
_MOMENT_TOLERANCE = 0.01
"""Of a mean, in logits (a hundredth moves no pass rate by more than 0.0025), and of a variance, as a share of it."""
_SMALLEST_DAMPING, _RECOVERY = 0.1, 1.3
_SMALLEST_PRECISION = _SMALLEST_VARIANCE = 1e-9
_NUM_NODES = 64
_REACH = 9.0
"""Standard deviations of what is not yet seen of a logit; beyond is a share of 1e-18."""
_MODE_STEPS = 200
_LARGEST_MODE_STEP = 2.0
"""In logits: together they reach as far as any prior does."""


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
        from scipy.linalg import cholesky, solve_triangular

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
        from scipy.linalg import solve_triangular

        explained_VM = solve_triangular(self.root_VV, (covariance_MV * np.sqrt(self.sites.curvature_V)).T, lower=True)
        return covariance_MV @ self.weights_V, np.maximum(variance_M - (explained_VM**2).sum(axis=0), 0.0)


def fit_laplace(
    covariance_VV: Array, positives_V: Array, sizes_V: Array, *, start_V: Array | None = None
) -> tuple[ProcessFit, float]:
    """Find the most likely logits of visits by Newton's method; the likelihood is binomial and the prior of mean 0.

    The normal distribution about them (Laplace's approximation) is too moderate: a posterior of responses that are all
    right has most of its mass beyond its mode (:func:`fit_moments`).

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
    from scipy.special import expit

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


def fit_moments(covariance_VV: Array, positives_V: Array, sizes_V: Array, *, start: Sites) -> ProcessFit | None:
    """Replace the likelihood of each visit by the factor that gives its logit the right mean and variance.

    "Right" is: as the binomial likelihood of this one visit would, with the factors of all others. For a single visit
    that is exact. All factors change at once, by half as much after they came no nearer, and by more again after they
    did.

    Args:
        covariance_VV: of the logits before anything was seen, positive semi-definite.
        positives_V: right answers of each visit.
        sizes_V: responses of each visit.
        start: factors to begin with, such as those of :func:`fit_laplace`; 0 where there is nothing to begin with.

    Returns:
        The normal distribution; None where no fixed point is found.

    Source:
        Minka 2001; Rasmussen and Williams 2006, section 3.6 and algorithm 3.5, with binomial counts and all sites at
        once.
    """
    variance_before_V = np.diag(covariance_VV)
    sites = Sites(np.maximum(start.curvature_V, _SMALLEST_PRECISION), start.slope_V)
    damping, farthest_before = 1.0, np.inf
    for _ in range(_MAX_SWEEPS):
        fit = ProcessFit.of(covariance_VV, sites)
        mean_V, variance_V = fit.predicted(covariance_VV, variance_before_V)
        variance_V = np.maximum(variance_V, _SMALLEST_VARIANCE)
        # What all the others say of a logit.
        precision_V = np.maximum(1 / variance_V - sites.curvature_V, 1 / variance_before_V)
        other_V = (mean_V / variance_V - sites.slope_V) / precision_V
        right_V, spread_V = _moments(other_V, 1 / precision_V, positives_V, sizes_V)
        farthest = float(np.maximum(np.abs(right_V - mean_V), np.abs(spread_V / variance_V - 1)).max(initial=0.0))
        if farthest < _MOMENT_TOLERANCE:
            return fit
        if not np.isfinite(farthest) or (spread_V <= 0).any():
            return None
        is_nearer = farthest < farthest_before
        damping = min(damping * _RECOVERY, 1.0) if is_nearer else max(damping / 2, _SMALLEST_DAMPING)
        farthest_before = farthest
        curvature_V = np.maximum(1 / spread_V - precision_V, _SMALLEST_PRECISION)
        slope_V = right_V / spread_V - other_V * precision_V
        sites = Sites(
            sites.curvature_V + damping * (curvature_V - sites.curvature_V),
            sites.slope_V + damping * (slope_V - sites.slope_V),
        )
    return None


def _moments(mean_V: Array, variance_V: Array, positives_V: Array, sizes_V: Array) -> tuple[Array, Array]:
    """Return mean and variance of a normal density times a binomial likelihood.

    By the trapezoidal rule about the mode, with nodes that lie the farther apart the farther out: one tail is that of
    the normal density, which may be far wider than the peak.
    """
    from scipy.special import expit

    mode_V = mean_V
    for _ in range(_MODE_STEPS):
        rates_V = expit(mode_V)
        slope_V = positives_V - sizes_V * rates_V - (mode_V - mean_V) / variance_V
        step_V = slope_V / (sizes_V * rates_V * (1 - rates_V) + 1 / variance_V)
        mode_V = mode_V + np.clip(step_V, -_LARGEST_MODE_STEP, _LARGEST_MODE_STEP)
        if np.abs(step_V).max(initial=0.0) < _MOMENT_TOLERANCE:
            break
    rates_V = expit(mode_V)
    width_V = 1 / np.sqrt(sizes_V * rates_V * (1 - rates_V) + 1 / variance_V)
    last_V = np.arcsinh(_REACH * np.sqrt(variance_V) / width_V)
    nodes_VQ = last_V[:, None] * np.linspace(-1, 1, _NUM_NODES)
    logits_VQ = mode_V[:, None] + width_V[:, None] * np.sinh(nodes_VQ)
    log_mass_VQ = positives_V[:, None] * logits_VQ - sizes_V[:, None] * np.logaddexp(0.0, logits_VQ)
    log_mass_VQ -= (logits_VQ - mean_V[:, None]) ** 2 / (2 * variance_V[:, None])
    log_mass_VQ += np.log(np.cosh(nodes_VQ))  # how far apart nodes lie
    mass_VQ = np.exp(log_mass_VQ - log_mass_VQ.max(axis=1, keepdims=True))
    share_VQ = mass_VQ / mass_VQ.sum(axis=1, keepdims=True)
    right_V = (share_VQ * logits_VQ).sum(axis=1)
    spread_V = (share_VQ * (logits_VQ - right_V[:, None]) ** 2).sum(axis=1)
    return right_V, spread_V


def beta_of_logit(mean_M: Array, variance_M: Array) -> tuple[Array, Array]:
    """Return alpha and beta of the Beta distributions with the mean and variance of ``sigmoid(normal)``.

    Example:
        >>> alpha, beta = beta_of_logit(np.array([0.0]), np.array([1.0]))
        >>> float(alpha[0].round(2)), float(beta[0].round(2))
        (2.38, 2.38)
    """
    from scipy.special import expit

    logits_MQ = mean_M[:, None] + np.sqrt(variance_M)[:, None] * _NODES_Q
    share_Q = _WEIGHTS_Q / _WEIGHTS_Q.sum()
    rates_MQ, wrong_MQ = expit(logits_MQ), expit(-logits_MQ)  # 1 - rate would be 0 for the largest logits
    rate_M, wrong_M = (np.maximum(each_MQ @ share_Q, _SMALLEST_RATE) for each_MQ in (rates_MQ, wrong_MQ))
    spread_M = np.maximum((rates_MQ - rate_M[:, None]) ** 2 @ share_Q, np.finfo(float).tiny)
    strength_M = np.clip(rate_M * wrong_M / spread_M - 1, _LEAST_STRENGTH, _MOST_STRENGTH)
    return rate_M * strength_M, wrong_M * strength_M
