"""No gradients at all."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.core.protocols import GradientNorm
from ada_lightning.core.records import ResponsePool


class ConstantNorm(GradientNorm):
    """1 for every prompt: pass rates alone divide the step. Costs nothing (ours)."""

    def measure(self, pools: Sequence[ResponsePool]) -> list[float]:
        """Return 1 for each."""
        return [1.0] * len(pools)
