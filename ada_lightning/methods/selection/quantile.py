"""Strata of rewards by the quantiles of the pool itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.selection.reward_strata import RewardStrataSelection


class QuantileSelection(RewardStrataSelection):
    """Keeps some of every quantile of the pool's rewards: needs no thresholds, and suits rewards of any unit.

    Labels depend on the pool: one reward can be in the top stratum of a hard prompt and in the bottom stratum of an
    easy one, and a response's stratum depends on which others were drawn. Equal rewards share a stratum, which their
    mid-rank decides, so a rare reward at either end is set apart from a frequent one; a pool in which few different
    rewards occur has fewer strata.

    Args:
        group_size: responses kept per prompt, fewer where the pool is smaller.
        num_strata: quantiles to tell apart.
        random_order: take a random choice of each stratum instead of the first generated.
        seed: of that choice.

    Raises:
        ValueError: fewer than 2 strata, or a ``group_size`` below 1 or below ``num_strata``.
    """

    def __init__(self, *, group_size: int, num_strata: int, random_order: bool = False, seed: int = 0) -> None:
        if num_strata < 2:
            raise ValueError(f"num_strata must be at least 2; got {num_strata}")
        super().__init__(group_size=group_size, num_strata=num_strata, random_order=random_order, seed=seed)

    def strata(self, pool: ResponsePool) -> Mapping[float, int]:
        """Return the quantile of each reward: its mid-rank, (lower ones + half of the equal ones) / all, in strata."""
        stratum_of_reward = {}
        num_lower = 0
        for reward, num_equal in sorted(Counter(response.reward for response in pool.responses).items()):
            stratum_of_reward[reward] = self.num_strata * (2 * num_lower + num_equal) // (2 * pool.num_sampled)
            num_lower += num_equal
        return stratum_of_reward
