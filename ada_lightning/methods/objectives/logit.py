"""What the official balanced rule optimises without saying so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import Objective

Values = NDArray[np.float64]


@dataclass(frozen=True)
class LogitObjective(Objective):
    """f(p) = logit(p) / 2 - p: hard prompts and nearly solved ones count more, by ``1 / (2 p q) - 1``.

    Balanced selection with reward minus pool mean has this expected update (up to the bias of the pool mean). Here it
    is exact, with the powers of p and of q that a budget supports: with ``1 = p + q``,
    ``p q f'(p) = sum_(k >= 2) (p^k q + p q^k) / 2``.
    """

    def value(self, pass_rate: Values) -> Values:
        """``logit(p) / 2 - p``."""
        return 0.5 * (np.log(pass_rate) - np.log1p(-pass_rate)) - pass_rate

    def weight(self, pass_rate: Values) -> Values:
        """``1 / (2 p q) - 1``."""
        return 0.5 / (pass_rate * (1.0 - pass_rate)) - 1.0

    def terms(self, n_max: int) -> dict[tuple[int, int], float]:
        """``p q f'(p)`` as coefficients of ``p^i q^j``, by (i, j): one half at every (1, k) and (k, 1) with k >= 2."""
        sides = [(1, power) for power in range(2, n_max)] + [(power, 1) for power in range(2, n_max)]
        return dict.fromkeys(sides, 0.5)

    def formula(self) -> str:
        """Return f as a person writes it."""
        return "logit(p)/2 - p"
