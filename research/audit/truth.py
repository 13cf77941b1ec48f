"""What the figures of a synthetic population really are: sums over its pass rates, without any log."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import poisson

from ada_lightning.audit.rules import CANDIDATES
from ada_lightning.core.stopping import StoppingRule
from ada_lightning.core.stopping.paths import end_probability, ends
from research.audit.synthetic import CLIMB, GAP, LENGTH_LIMIT, RATES, Population, mean_length

Floats = np.ndarray


def true_figures(population: Population) -> dict[str, float]:
    """Return the figures of an audit by name; rules by their names, as ``<rule>/<figure>``."""
    size, rates = population.group_size, np.array(RATES)
    shares_VK = np.array([population.shares(step) for step in range(population.num_steps)])
    weights_K = shares_VK.mean(axis=0)

    def mean(values: Callable[[float], float]) -> float:
        return float(weights_K @ np.array([values(rate) for rate in RATES]))

    length = mean(lambda p: size * expected_length(p))
    wrong = mean(lambda p: (1 - p) ** size * size * mean_length(p, is_right=False))
    right = mean(lambda p: p**size * size * mean_length(p, is_right=True))
    signal = mean(lambda p: 1 - p**size - (1 - p) ** size)
    spread = float(weights_K @ rates**2 - (weights_K @ rates) ** 2)
    moved = float(np.mean(shares_VK[:-1] @ np.append(CLIMB * np.diff(rates) ** 2, 0.0)))
    found = {
        "no_gradient": (wrong + right) / length,
        "lost:ALL_WRONG": wrong / length,
        "lost:ALL_RIGHT": right / length,
        "signal": signal,
        "pass_rate": float(weights_K @ rates),
        "pq": float(weights_K @ (rates * (1 - rates))),
        "spread": spread,
        "length_gap": GAP,
        "truncated": mean(_cut),
        "change": moved,
        "half_life": spread / moved,
    }
    logged = mean(lambda p: (size - 1) * p * (1 - p)) / length
    for candidate in CANDIDATES:
        if candidate.rule.n_max <= size:
            found |= _of_rule(candidate.name, candidate.rule, weights_K, logged)
    return found


def expected_length(rate: float) -> float:
    """Mean tokens of a response."""
    return rate * mean_length(rate, is_right=True) + (1 - rate) * mean_length(rate, is_right=False)


def _cut(rate: float) -> float:
    """Chance that a response reaches the length limit."""
    chances = [poisson.sf(LENGTH_LIMIT - 1, mean_length(rate, is_right=is_right)) for is_right in (True, False)]
    return float(rate * chances[0] + (1 - rate) * chances[1])


def _of_rule(name: str, rule: StoppingRule, weights_K: Floats, logged: float) -> dict[str, float]:
    totals = np.zeros(5)
    for weight, rate in zip(weights_K, RATES, strict=True):
        for positives, negatives in ends(rule):
            chance = weight * end_probability(rule, (positives, negatives), rate)
            length = positives * mean_length(rate, is_right=True) + negatives * mean_length(rate, is_right=False)
            both = float(positives > 0 and negatives > 0)
            totals += chance * np.array(
                [
                    positives + negatives,
                    length,
                    both,
                    (positives + negatives) * both,
                    _comparisons(positives, negatives),
                ]
            )
    responses, length, signal, rows, comparisons = map(float, totals)
    return {
        f"{name}/responses": responses,
        f"{name}/length": length,
        f"{name}/signal": signal,
        f"{name}/rows": rows,
        f"{name}/signal_per_1k": 1000 * signal / length,
        f"{name}/comparisons_per_1k": 1000 * comparisons / length,
        f"{name}/versus_logged": comparisons / length / logged,
    }


def _comparisons(positives: int, negatives: int) -> float:
    return positives * negatives / (positives + negatives)
