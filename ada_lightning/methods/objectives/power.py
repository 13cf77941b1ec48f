"""A power of the pass rate, between the mean and the logarithm."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ada_lightning.methods.objectives.series import PowerSeriesObjective


@dataclass(frozen=True)
class PowerObjective(PowerSeriesObjective):
    """f(p) = p^alpha. Alpha 1 is the mean pass rate; towards 0 it weights prompts like the logarithm.

    Args:
        alpha: above 0, at most 1.

    Raises:
        ValueError: ``alpha`` outside (0, 1]: above 1 it would prefer easy prompts and have negative coefficients.
    """

    alpha: float

    def __post_init__(self) -> None:
        """Check the range."""
        if not 0 < self.alpha <= 1:
            raise ValueError(f"objective.alpha must be in (0, 1]; got {self.alpha}; for log p use objective=log")

    def value(self, pass_rate_B: Tensor) -> Tensor:
        """``p^alpha``."""
        return pass_rate_B**self.alpha

    def weight(self, pass_rate_B: Tensor) -> Tensor:
        """``alpha p^(alpha - 1)``."""
        return self.alpha * pass_rate_B ** (self.alpha - 1)

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
