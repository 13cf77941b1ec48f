"""Maximum likelihood of a correct answer."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ada_lightning.methods.objectives.series import PowerSeriesObjective


@dataclass(frozen=True)
class LogObjective(PowerSeriesObjective):
    """f(p) = log p: hard prompts count by ``1 / p``.

    A budget of n responses can support ``(1 - (1-p)^(n-1)) / p`` of it: "solve it within n - 1 tries", the same as
    ``1 / p`` except for prompts that n responses cannot see anyway.
    """

    def value(self, pass_rate_B: Tensor) -> Tensor:
        """``log p``."""
        return pass_rate_B.log()

    def weight(self, pass_rate_B: Tensor) -> Tensor:
        """``1 / p``."""
        return 1.0 / pass_rate_B

    def series(self, num_terms: int) -> list[float]:
        """``1, 1, 1, ...``: the geometric series of ``1 / p``."""
        return [1.0] * num_terms

    def formula(self) -> str:
        """Return f as a person writes it."""
        return "log p"
