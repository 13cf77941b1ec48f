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
