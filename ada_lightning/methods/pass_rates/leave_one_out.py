"""The mean over every other response of the pool."""

from __future__ import annotations

import torch
from torch import Tensor

from ada_lightning.core.batch import Microbatch


class LeaveOneOutRate:
    """Mean reward of the pool without the response itself: as a baseline it is independent of what it is taken from.

    The only estimate here that differs between the responses of one pool. In a pool of one it is the response's own
    reward, which leaves no advantage.
    """

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Shape ``(B,)``, in the reward's unit."""
        num_others_B = microbatch.num_sampled_B - 1
        others_sum_B = microbatch.pool_reward_sum_B - microbatch.rewards_B
        return torch.where(num_others_B > 0, others_sum_B / num_others_B.clamp_min(1.0), microbatch.rewards_B)
