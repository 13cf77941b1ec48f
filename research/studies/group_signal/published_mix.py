"""Mixes of pass rates that reproduce the paper's pass@k and all-right curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from research.benchmarks.simulation.pass_rates import Mix
from research.studies.group_signal.paper import CURVES, SIZES
from research.studies.group_signal.rates import Floats, MixRates
from research.studies.group_signal.uniform import uniform_groups

_STARTS = ((-2.0, -3.0, -1.0, 0.0), (-2.0, -1.0, -1.0, -1.0), (-4.0, -4.0, 0.0, 0.0))
"""Logits of never and always, logarithms of alpha and beta."""


@lru_cache(maxsize=2)
def published_mix(model: str) -> tuple[Mix, float]:
    """Fit a mix to both curves of a model by least squares.

    Returns:
        The mix, and the largest distance of its curves from the published ones.
    """
    curves = CURVES[model]

    def misses(x: Floats) -> Floats:
        return _distances(_decode(x), curves)

    found = [
        minimize(
            lambda x: float((misses(x) ** 2).sum()),
            np.array(start),
            method="Nelder-Mead",
            bounds=[(-14.0, 3.0)] * 2 + [(-5.0, 5.0)] * 2,
            options={"maxiter": 3000, "xatol": 1e-5, "fatol": 1e-10},
        )
        for start in _STARTS
    ]
    best = min(found, key=lambda result: float(result.fun)).x
    return _decode(best), float(np.abs(misses(best)).max())


def _decode(x: Floats) -> Mix:
    never = float(expit(x[0]))
    return Mix(never, float(expit(x[1])) * (1 - never), float(np.exp(x[2])), float(np.exp(x[3])))


def _distances(mix: Mix, curves: Mapping[str, Sequence[float]]) -> Floats:
    groups = uniform_groups(MixRates(mix), max(SIZES))
    columns = np.array(SIZES) - 1
    weights_R = groups.rates.weights_R
    passed = 1 - weights_R @ groups.all_wrong_RN[:, columns]
    all_right = weights_R @ groups.all_right_RN[:, columns]
    return np.concatenate([passed - curves["pass"], all_right - curves["all_right"]])
