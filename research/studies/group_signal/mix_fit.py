"""A mix of pass rates fitted to counts by maximum likelihood, and how far its shares at 0 and 1 are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit
from scipy.stats import beta, betabinom, chi2

from research.benchmarks.simulation.pass_rates import Mix
from research.studies.group_signal.rates import Floats, KnownRates

Counts = NDArray[np.int64]
_STARTS = ((0.05, 0.05, 0.5, 1.0), (0.3, 0.01, 0.5, 5.0), (0.01, 0.3, 5.0, 0.5), (0.01, 0.01, 1.0, 1.0))
"""Never, always, alpha, beta."""
_HALF_CHI2 = float(chi2.ppf(0.95, 1)) / 2
_QUANTILES = 20
_TINY = 1e-6
"""Shares below it are 0."""


@dataclass(frozen=True)
class MixFit:
    """The likeliest mix."""

    mix: Mix
    log_likelihood: float
    never_interval: tuple[float, float]
    """Shares of prompts never solved that the counts do not exclude: 95 %, by profile likelihood."""
    always_interval: tuple[float, float]
    """The same of prompts always solved."""


def fit_mix(positives: Counts, responses: Counts) -> MixFit:
    """Fit a share at 0, a share at 1 and a Beta distribution."""
    mix, best = _likeliest(positives, responses, {}, _STARTS)

    def interval(name: str) -> tuple[float, float]:
        def shortfall(share: float) -> float:
            start = (max(mix.never, _TINY), max(mix.always, _TINY), mix.alpha, mix.beta)
            return best - _likeliest(positives, responses, {name: share}, (start,))[1] - _HALF_CHI2

        at = min(max(getattr(mix, name), _TINY), 1 - 2 * _TINY)
        low = 0.0 if shortfall(0.0) <= 0 else float(brentq(shortfall, 0.0, at, xtol=1e-4))
        return low, float(brentq(shortfall, at, 1 - _TINY, xtol=1e-4))

    return MixFit(mix, best, interval("never"), interval("always"))


def log_likelihood(mix: Mix, positives: Counts, responses: Counts) -> float:
    """Logarithm of the chance of these counts, summed over prompts.

    Example:
        >>> round(log_likelihood(Mix(0.0, 0.0, 1.0, 1.0), np.array([3]), np.array([7])), 4)  # one of 0 to 7: log 1/8
        -2.0794
    """
    between = (1 - mix.never - mix.always) * betabinom.pmf(positives, responses, mix.alpha, mix.beta)
    chances = between + mix.never * (positives == 0) + mix.always * (positives == responses)
    return float(np.log(np.maximum(chances, 1e-300)).sum())


def likely_rates(mix: Mix, positives: Counts, responses: Counts) -> KnownRates:
    """Pass rates that the prompts may have: quantiles of each one's posterior, the mix being the prior.

    Returns:
        As many rates of each prompt.
    """
    levels_L = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    between = (1 - mix.never - mix.always) * betabinom.pmf(positives, responses, mix.alpha, mix.beta)
    never, always = mix.never * (positives == 0), mix.always * (positives == responses)
    total = between + never + always
    never_P1, always_P1 = (never / total)[:, None], (always / total)[:, None]
    inside_PL = np.clip((levels_L - never_P1) / np.maximum(1 - never_P1 - always_P1, 1e-300), 0.0, 1.0)
    # its quantiles at 0 and 1 are the pass rates 0 and 1
    rates_PL = beta.ppf(inside_PL, mix.alpha + positives[:, None], mix.beta + (responses - positives)[:, None])
    return KnownRates(rates_PL.ravel())


def _likeliest(
    positives: Counts, responses: Counts, fixed: dict[str, float], starts: Sequence[tuple[float, float, float, float]]
) -> tuple[Mix, float]:
    """Return the likeliest mix, with a share fixed or none, and its log-likelihood."""

    def decode(x: Floats) -> Mix:
        never = fixed.get("never", expit(x[0]) * (1 - fixed.get("always", 0.0)))
        always = fixed.get("always", expit(x[1]) * (1 - never))
        return Mix(float(never), float(always), float(np.exp(x[2])), float(np.exp(x[3])))

    def loss(x: Floats) -> float:
        return -log_likelihood(decode(x), positives, responses)

    found = [
        minimize(
            loss,
            np.array([logit(never), logit(always), np.log(alpha), np.log(beta)]),
            method="Nelder-Mead",
            bounds=[(logit(_TINY / 2), -logit(_TINY / 2))] * 2 + [(np.log(1e-3), np.log(1e4))] * 2,
            options={"maxiter": 2000, "xatol": 1e-5, "fatol": 1e-7},
        )
        for never, always, alpha, beta in starts
    ]
    best = min(found, key=lambda result: float(result.fun))
    return _rounded(decode(best.x)), -float(best.fun)


def _rounded(mix: Mix) -> Mix:
    never, always = (0.0 if share < _TINY else share for share in (mix.never, mix.always))
    return Mix(never, always, mix.alpha, mix.beta)
