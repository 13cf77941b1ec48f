"""The official rule of Reinforce-Ada: reward minus the mean of the whole pool."""

from __future__ import annotations

from torch import Tensor

from ada_lightning.batch import Microbatch
from ada_lightning.functional.moments import centered, unbiased_std


class PoolMeanAdvantage:
    """Centers each reward on the mean over every response sampled for its prompt, not over the few kept.

    With balanced selection the kept group's own mean would be 1/2 for every prompt and erase difficulty.
    Balanced selection also changes what is optimised: the expected update is that of ``logit(p)/2 - p``, not of ``p``.

    Args:
        normalize_std: also divide by the pool's standard deviation (unbiased, plus 1e-6). The official script does not.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, Algorithm 2, line 19; official code ``core_algos.py`` L262-373 at 05be605
        with ``global_stat_est`` on.
    """

    def __init__(self, *, normalize_std: bool = False) -> None:
        self.normalize_std = normalize_std

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Return ``r - mean`` or ``(r - mean) / (std + 1e-6)``. Shape ``(B,)``, float32."""
        advantages_B = centered(microbatch.rewards_B, microbatch.pool_reward_sum_B, microbatch.num_sampled_B)
        if not self.normalize_std:
            return advantages_B
        std_B = unbiased_std(microbatch.pool_squared_deviation_B, microbatch.num_sampled_B)
        return advantages_B / (std_B + 1e-6)
