"""The most signals that any sampling could reach with given responses: what there is to win by adapting.

By Lagrange duality: for a price per response the best rule is found exactly, and the least upper bound over prices is
reached by a rule, or by a lot between two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from research.studies.group_signal.rates import Floats, KnownRates, PassRates

PRICES = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 4000)])
"""Signals that a response has to promise. Neighbours differ by 0.35 %: a bound is high by less than that times price
times responses."""
HORIZON = 900
"""Of rules without history; scaled moments end at 1,000 responses."""


@dataclass(frozen=True)
class Frontier:
    """Upper bound on the share of prompts with a signal, by responses per prompt."""

    values: Floats
    """Largest ``signals - price * responses`` of a prompt at each of :data:`PRICES`."""

    def at(self, responses: float) -> float:
        """Largest share of prompts with a signal at so many expected responses per prompt.

        Example:
            >>> always_half = best_with_known_rates(KnownRates([0.5]))
            >>> round(always_half.at(3.0), 4)  # 1/p + 1/q - 1 responses: a signal everywhere
            1.0
            >>> round(always_half.at(1.5), 4)  # begin with half of the prompts
            0.5
        """
        return float(np.min(self.values + PRICES * responses))


def best_without_history(rates: PassRates, horizon: int = HORIZON) -> Frontier:
    """Bound for rules that know the mix, but nothing of the single prompt.

    After m equal responses a rule either stops or draws one more; by Bayes the next one differs with chance
    ``1 - E[p^(m+1)] / E[p^m]``. Backward induction over m finds the best choice at every price.
    """
    sizes = np.arange(1, horizon + 2)
    scale, none = 2.0**-sizes, np.zeros_like(sizes)
    right = np.append(1.0, rates.weights_R @ (rates.scaled_moments(sizes, none) * scale))
    wrong = np.append(1.0, rates.weights_R @ (rates.scaled_moments(none, sizes) * scale))
    start = right[1] * _value_of_going_on(right) + wrong[1] * _value_of_going_on(wrong) - PRICES
    return Frontier(np.maximum(start, 0.0))


def best_with_known_rates(rates: KnownRates) -> Frontier:
    """Bound for rules that know every prompt's pass rate.

    After a right response the next one is wrong with chance q, whatever came before: going on pays where q is above the
    price, and then to the end.
    """
    p_R1 = rates.pass_rates[:, None]
    start = p_R1 * _value_until(1 - p_R1) + (1 - p_R1) * _value_until(p_R1) - PRICES
    return Frontier(rates.weights_R @ np.maximum(start, 0.0))


def _value_of_going_on(survival_M: Floats) -> Floats:
    """Value after one response, at every price, where ``survival_M[m]`` is the chance of m equal responses."""
    value = np.zeros_like(PRICES)
    for size in range(len(survival_M) - 2, 0, -1):
        again = survival_M[size + 1] / survival_M[size] if survival_M[size] > 0 else 1.0
        value = np.maximum(0.0, 1.0 - again - PRICES + again * value)
    return value


def _value_until(chance_R1: Floats) -> Floats:
    """Value of drawing until an event of this chance, at every price: ``1 - price / chance``, at least 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = 1.0 - PRICES / chance_R1
    return np.where(chance_R1 > PRICES, value, 0.0)


@dataclass(frozen=True)
class Bounds:
    """Both bounds."""

    without_history: Frontier
    with_known_rates: Frontier

    def at(self, responses: float) -> dict[str, float]:
        """Return the most signals at so many expected responses per prompt."""
        return {
            "best_without_history": self.without_history.at(responses),
            "best_with_known_rates": self.with_known_rates.at(responses),
        }
