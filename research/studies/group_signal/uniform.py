"""Groups of n, for every n: closed forms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from research.studies.group_signal.rates import Floats, PassRates


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
