"""RLOO: each response is compared with the others of its group."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ada_lightning.core.batch import Microbatch
from ada_lightning.core.protocols import Compared
from ada_lightning.methods.functional.moments import centered


class LeaveOneOutAdvantage:
    """Reward minus the mean of the *other* kept responses, so the baseline is independent of the response.

    Source:
        RLOO: Ahmadian et al., "Back to Basics", arXiv:2402.14740; Kool et al. 2019.
    """

    compares: ClassVar[Compared] = "kept"

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Return ``(r - mean) n / (n - 1)``; 0 in a group of one. Shape ``(B,)``, float32."""
        size_B = microbatch.group_size_B
        advantages_B = centered(microbatch.rewards_B, microbatch.group_reward_sum_B, size_B)
        return advantages_B * size_B / (size_B - 1).clamp_min(1.0)
