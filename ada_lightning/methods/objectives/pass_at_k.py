"""Solved by at least one of k tries."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ada_lightning.methods.objectives.series import PowerSeriesObjective


@dataclass(frozen=True)
class PassAtKObjective(PowerSeriesObjective):
    """f(p) = 1 - (1-p)^k.

    Args:
        k: tries. 1 is the mean pass rate.

    Raises:
        ValueError: ``k`` below 1.
    """

    k: int

    def __post_init__(self) -> None:
        """Check the range."""
        if self.k < 1:
            raise ValueError(f"objective.k must be at least 1; got {self.k}")

    def value(self, pass_rate_B: Tensor) -> Tensor:
        """``1 - (1-p)^k``."""
        return 1.0 - (1.0 - pass_rate_B) ** self.k

    def weight(self, pass_rate_B: Tensor) -> Tensor:
        """``k (1-p)^(k-1)``."""
        return self.k * (1.0 - pass_rate_B) ** (self.k - 1)

    def series(self, num_terms: int) -> list[float]:
        """``k`` at ``j = k - 1``, else 0."""
        return [float(self.k) if power == self.k - 1 else 0.0 for power in range(num_terms)]

    def formula(self) -> str:
        """Return f as a person writes it."""
        return f"1 - (1-p)^{self.k}"
