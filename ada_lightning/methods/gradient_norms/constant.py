"""No gradients at all."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.core.protocols import PolicyView
from ada_lightning.core.records import ResponsePool


class ConstantNorm:
    """1 for every prompt: pass rates alone divide the step. Costs nothing (ours)."""

    def connect(self, policy: PolicyView) -> None:
        """Nothing is asked of the policy."""

    def measure(self, pools: Sequence[ResponsePool]) -> list[float]:
        """Return 1 for each."""
        return [1.0] * len(pools)
