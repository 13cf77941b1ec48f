"""The mean over the first round."""

from __future__ import annotations

from torch import Tensor

from ada_lightning.core.batch import Microbatch


class FirstRoundRate:
    """Mean reward of the first round only: unbiased, and as noisy as a handful of samples is."""

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Shape ``(B,)``."""
        return microbatch.first_round_reward_sum_B / microbatch.first_round_size_B.clamp_min(1.0)
