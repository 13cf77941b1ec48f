"""What a stopping rule yields: responses drawn, and the chance of a signal, as exact sums over its ends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.stopping import StoppingRule
from ada_lightning.core.stopping.paths import ends, reach
from research.studies.group_signal.rates import Floats, PassRates

BALANCED = 2
"""Right and wrong responses of which a balanced group of 4 is made."""


@dataclass(frozen=True)
class Outcome:
    """Expectations over the ends of a prompt's sampling, one per row of the pass rates."""

    rates: PassRates
    responses_R: Floats
    """Responses drawn."""
    all_right_R: Floats
    """Chance that all responses of the pool are right: no signal."""
    all_wrong_R: Floats
    """Chance that all are wrong: no signal."""
    balanced_R: Floats
    """Chance of at least two right and two wrong."""

    @property
    def signal_by_row(self) -> Floats:
        """Chance that the pool holds right and wrong responses."""
        return 1.0 - self.all_right_R - self.all_wrong_R

    @property
    def responses(self) -> float:
        """Expected responses per prompt."""
        return self.rates.mean(self.responses_R)

    @property
    def signal(self) -> float:
        """Expected share of prompts with a signal."""
        return self.rates.mean(self.signal_by_row)

    @property
    def balanced(self) -> float:
        """Expected share of prompts with two right and two wrong responses."""
        return self.rates.mean(self.balanced_R)

    @property
    def signals_per_1000(self) -> float:
        """Prompts with a signal per 1,000 responses."""
        return 1000 * self.signal / self.responses


def outcome(rule: StoppingRule, rates: PassRates) -> Outcome:
    """Sum over all ends of a rule.

    Example:
        >>> from ada_lightning.core.stopping import QuotaRule
        >>> from research.studies.group_signal.rates import KnownRates
        >>> seq_balance = outcome(QuotaRule(k_pos=2, k_neg=2, samples_per_round=8, n_max=32), KnownRates([0.1]))
        >>> round(seq_balance.responses, 2), round(1 - seq_balance.signal, 4)  # 0.9^32
        (20.96, 0.0343)
    """
    points, paths_E = _ends(rule)
    right_E, wrong_E = points.T
    chances_RE = rates.scaled_moments(right_E, wrong_E) * paths_E
    return Outcome(
        rates,
        chances_RE @ (right_E + wrong_E),
        chances_RE @ (wrong_E == 0),
        chances_RE @ (right_E == 0),
        chances_RE @ ((right_E >= BALANCED) & (wrong_E >= BALANCED)),
    )


@lru_cache(maxsize=1024)
def _ends(rule: StoppingRule) -> tuple[NDArray[np.int64], Floats]:
    """Ends of a rule, shape ``(ends, 2)``, and the scaled number of paths to each."""
    points = np.array(list(ends(rule)))
    return points, reach(rule)[points[:, 0], points[:, 1]]


@dataclass(frozen=True)
class UniformGroups:
    """Chances of groups of 1 to n responses, in columns."""

    rates: PassRates
    all_right_RN: Floats
    """``p^n``."""
    all_wrong_RN: Floats
    """``q^n``."""
    balanced_RN: Floats
    """Two right and two wrong: ``1 - p^n - q^n - n p q^(n-1) - n p^(n-1) q``, from n = 4."""

    @property
    def signal_by_size(self) -> Floats:
        """``1 - p^n - q^n``."""
        return 1.0 - self.all_right_RN - self.all_wrong_RN

    def signal_at(self, responses: float) -> float:
        """Share of prompts with a signal, groups being as large on average.

        Between two whole sizes some prompts get one response more than others, by lot: a straight line.
        """
        return between(self.rates.weights_R @ self.signal_by_size, responses)

    def balanced_at(self, responses: float) -> float:
        """Share of prompts with two right and two wrong responses, groups being as large on average."""
        return between(self.rates.weights_R @ self.balanced_RN, responses)

    def size_for(self, signal: float) -> float:
        """Size of groups that gives this share of prompts a signal; infinite where the largest gives less."""
        by_size = self.rates.weights_R @ self.signal_by_size
        if signal > by_size[-1]:
            return float("inf")
        above = int(np.argmax(by_size >= signal))
        if above == 0:
            return 1.0
        step = by_size[above] - by_size[above - 1]
        return float(above + (signal - by_size[above - 1]) / step)


def uniform_groups(rates: PassRates, largest: int) -> UniformGroups:
    """Compute groups of 1 to ``largest`` responses.

    Example:
        >>> from research.studies.group_signal.rates import KnownRates
        >>> float(uniform_groups(KnownRates([0.1]), 8).all_wrong_RN[0, 7].round(4))  # 0.9^8
        0.4305
    """
    sizes_N = np.arange(1, largest + 1)
    none_N, scale_N = np.zeros_like(sizes_N), 2.0**-sizes_N
    all_right = rates.scaled_moments(sizes_N, none_N) * scale_N
    all_wrong = rates.scaled_moments(none_N, sizes_N) * scale_N
    one_right = sizes_N * rates.scaled_moments(none_N + 1, sizes_N - 1) * scale_N
    one_wrong = sizes_N * rates.scaled_moments(sizes_N - 1, none_N + 1) * scale_N
    balanced = np.where(sizes_N >= 4, 1.0 - all_right - all_wrong - one_right - one_wrong, 0.0)
    return UniformGroups(rates, all_right, all_wrong, balanced)


def between(by_size: Floats, responses: float) -> float:
    """Value at a size between two whole ones, the first entry being that of size 1."""
    if not 1 <= responses <= len(by_size):
        raise ValueError(f"groups of {responses:g} responses are outside the computed sizes, 1 to {len(by_size)}")
    return float(np.interp(responses, np.arange(1, len(by_size) + 1), by_size))
