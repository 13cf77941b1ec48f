"""The mean pass rate."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ada_lightning.methods.objectives.series import PowerSeriesObjective


@dataclass(frozen=True)
class LinearObjective(PowerSeriesObjective):
    """f(p) = p: expected reward, what plain policy gradients maximise."""

    def value(self, pass_rate_B: Tensor) -> Tensor:
        """P itself."""
        return pass_rate_B

    def weight(self, pass_rate_B: Tensor) -> Tensor:
        """1 for every prompt."""
        return torch.ones_like(pass_rate_B)

    def series(self, num_terms: int) -> list[float]:
        """``1, 0, 0, ...``."""
        return [float(power == 0) for power in range(num_terms)]

    def formula(self) -> str:
        """Return f as a person writes it."""
        return "p"
