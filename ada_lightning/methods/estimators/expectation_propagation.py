"""Expectation propagation for logits that are seen through counts of right answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ada_lightning.methods.estimators.binomial_process import ProcessFit, Sites

Array = NDArray[np.float64]

_MAX_SWEEPS = 30
_TOLERANCE = 0.01
"""Of a mean, in logits (a hundredth moves no pass rate by more than 0.0025), and of a variance, as a share of it."""
_SMALLEST_DAMPING, _RECOVERY = 0.1, 1.3
_SMALLEST_PRECISION = _SMALLEST_VARIANCE = 1e-9
_NUM_NODES = 64
_REACH = 9.0
"""Standard deviations of what is not yet seen of a logit; beyond is a share of 1e-18."""
_MODE_STEPS = 200
_LARGEST_MODE_STEP = 2.0
"""In logits: together they reach as far as any prior does."""


def fit_moments(covariance_VV: Array, positives_V: Array, sizes_V: Array, *, start: Sites) -> ProcessFit | None:
    """Replace the likelihood of each visit by the factor that gives its logit the right mean and variance.

    "Right" is: as the binomial likelihood of this one visit would, with the factors of all others. For a single visit
    that is exact. All factors change at once, by half as much after they came no nearer, and by more again after they
    did.

    Args:
        covariance_VV: of the logits before anything was seen, positive semi-definite.
        positives_V: right answers of each visit.
        sizes_V: responses of each visit.
        start: factors to begin with, such as those of
            :func:`~ada_lightning.methods.estimators.binomial_process.fit_laplace`; 0 where there is nothing to begin
            with.

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
        if farthest < _TOLERANCE:
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
    mode_V = mean_V
    for _ in range(_MODE_STEPS):
        rates_V = expit(mode_V)
        slope_V = positives_V - sizes_V * rates_V - (mode_V - mean_V) / variance_V
        step_V = slope_V / (sizes_V * rates_V * (1 - rates_V) + 1 / variance_V)
        mode_V = mode_V + np.clip(step_V, -_LARGEST_MODE_STEP, _LARGEST_MODE_STEP)
        if np.abs(step_V).max(initial=0.0) < _TOLERANCE:
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
