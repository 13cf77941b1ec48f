"""GRPO's rule: reward standardised within the group that trains."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ada_lightning.core.batch import Microbatch
from ada_lightning.core.protocols import Compared
from ada_lightning.methods.functional.moments import centered, unbiased_std


class GroupNormalizedAdvantage:
    """Standardises each reward by mean and standard deviation of the kept group.

    Args:
        normalize_std: divide by the group's standard deviation (unbiased, plus 1e-6). False gives Dr. GRPO's rule.

    Source:
        DeepSeekMath, arXiv:2402.03300, section 4.1.2; Dr. GRPO, arXiv:2503.20783.
    """

    compares: ClassVar[Compared] = "kept"

    def __init__(self, *, normalize_std: bool = True) -> None:
        self.normalize_std = normalize_std

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Return ``(r - mean) / (std + 1e-6)`` or ``r - mean``. Shape ``(B,)``, float32."""
        advantages_B = centered(microbatch.rewards_B, microbatch.group_reward_sum_B, microbatch.group_size_B)
        if not self.normalize_std:
            return advantages_B
        std_B = unbiased_std(microbatch.group_squared_deviation_B, microbatch.group_size_B)
        return advantages_B / (std_B + 1e-6)
