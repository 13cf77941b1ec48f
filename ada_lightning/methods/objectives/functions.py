"""The objectives f(p): all but one have a derivative that is a power series in the failure rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.options import option
from ada_lightning.core.protocols import Objective

Values = NDArray[np.float64]


@option("objective", "linear")
@dataclass(frozen=True)
class LinearObjective(Objective):
    """f(p) = p: the mean pass rate, what plain policy gradients maximise."""

    def value(self, pass_rate: Values) -> Values:
        """P itself."""
        return pass_rate

    def weight(self, pass_rate: Values) -> Values:
        """1 for every prompt."""
        return np.ones_like(pass_rate)

    def series(self, num_terms: int) -> list[float]:
        """``1, 0, 0, ...``."""
        return [float(power == 0) for power in range(num_terms)]

    def formula(self) -> str:
        """Return f as a person writes it."""
        return "p"


@option("objective", "log")
@dataclass(frozen=True)
class LogObjective(Objective):
    """f(p) = log p: hard prompts count by 1/p, as far as the budget can see them.

    It is the maximum likelihood of a right answer. A budget of n responses can support ``(1 - (1-p)^(n-1)) / p`` of it:
    "solve it within n - 1 tries", the same as ``1 / p`` except for prompts that n responses cannot see anyway.
    """

    def value(self, pass_rate: Values) -> Values:
        """``log p``."""
        return np.log(pass_rate)

    def weight(self, pass_rate: Values) -> Values:
        """``1 / p``."""
        return 1.0 / pass_rate

    def series(self, num_terms: int) -> list[float]:
        """``1, 1, 1, ...``: the geometric series of ``1 / p``."""
        return [1.0] * num_terms

    def formula(self) -> str:
        """Return f as a person writes it."""
        return "log p"


@option("objective", "power")
@dataclass(frozen=True)
class PowerObjective(Objective):
    """f(p) = p^alpha: between the mean (alpha = 1) and the logarithm (alpha towards 0).

    Args:
        alpha: exponent, above 0, at most 1.

    Raises:
        ValueError: ``alpha`` outside (0, 1]: above 1 it would prefer easy prompts and have negative coefficients.
    """

    alpha: float = 0.5

    def __post_init__(self) -> None:
        """Check the range."""
        if not 0 < self.alpha <= 1:
            raise ValueError(f"objective.alpha must be in (0, 1]; got {self.alpha}; for log p use objective=log")

    def value(self, pass_rate: Values) -> Values:
        """``p^alpha``."""
        return pass_rate**self.alpha

    def weight(self, pass_rate: Values) -> Values:
        """``alpha p^(alpha - 1)``."""
        return self.alpha * pass_rate ** (self.alpha - 1)

    def series(self, num_terms: int) -> list[float]:
        """``alpha (1-alpha)(2-alpha)...(j-alpha) / j!``: the binomial series of ``alpha (1-q)^(alpha-1)``."""
        coefficients: list[float] = []
        coefficient = self.alpha
        for power in range(num_terms):
            if power:
                coefficient *= (power - self.alpha) / power
            coefficients.append(coefficient)
        return coefficients

    def formula(self) -> str:
        """Return f as a person writes it."""
        return f"p^{self.alpha:g}"


@option("objective", "pass_at_k")
@dataclass(frozen=True)
class PassAtKObjective(Objective):
    """f(p) = 1 - (1-p)^k: solved by at least one of k tries.

    Args:
        k: tries. 1 is the mean pass rate.

    Raises:
        ValueError: ``k`` below 1.
    """

    k: int = 4

    def __post_init__(self) -> None:
        """Check the range."""
        if self.k < 1:
            raise ValueError(f"objective.k must be at least 1; got {self.k}")

    def value(self, pass_rate: Values) -> Values:
        """``1 - (1-p)^k``."""
        return 1.0 - (1.0 - pass_rate) ** self.k

    def weight(self, pass_rate: Values) -> Values:
        """``k (1-p)^(k-1)``."""
        return self.k * (1.0 - pass_rate) ** (self.k - 1)

    def series(self, num_terms: int) -> list[float]:
        """``k`` at ``j = k - 1``, else 0."""
        return [float(self.k) if power == self.k - 1 else 0.0 for power in range(num_terms)]

    def formula(self) -> str:
        """Return f as a person writes it."""
        return f"1 - (1-p)^{self.k}"


@option("objective", "logit")
@dataclass(frozen=True)
class LogitObjective(Objective):
    """f(p) = logit(p)/2 - p: what the official balanced rule optimises without saying so.

    Hard prompts and nearly solved ones count more, by ``1 / (2 p q) - 1``. Balanced selection with reward minus pool
    mean has this expected update (up to the bias of the pool mean). Here it is exact, with the powers of p and of q
    that a budget supports: with ``1 = p + q``, ``p q f'(p) = sum_(k >= 2) (p^k q + p q^k) / 2``.
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
