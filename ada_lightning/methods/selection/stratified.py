"""Strata of rewards by fixed thresholds."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.selection.reward_strata import RewardStrataSelection


class StratifiedSelection(RewardStrataSelection):
    """Keeps some of every stratum of rewards, the strata being the same for all pools.

    A stratum that is empty in a pool leaves its share to the others. So does one that no reward can ever reach, such
    as the one above 1 where rewards are in [0, 1]: the update stays right, and the group is cut into fewer strata than
    it seems. What a reward can return is not known here; ``responses/`` of a run shows what it did.

    Args:
        group_size: responses kept per prompt, fewer where the pool is smaller.
        thresholds: cut points between strata, increasing, in the reward's unit. A reward that equals a threshold
            belongs below it, as with ``rollout.positive_threshold``.
        random_order: take a random choice of each stratum instead of the first generated.
        seed: of that choice.

    Raises:
        ValueError: no threshold, one that is not finite, thresholds that do not increase, or a ``group_size`` below
            1 or below the number of strata.

    Example:
        >>> from ada_lightning.core.records import Prompt, ResponsePool
        >>> StratifiedSelection(group_size=4, thresholds=[0.3, 0.7]).select(ResponsePool(Prompt("x", ()), slot=0))
        ()
    """

    def __init__(
        self, *, group_size: int, thresholds: Sequence[float], random_order: bool = False, seed: int = 0
    ) -> None:
        self.thresholds = tuple(float(threshold) for threshold in thresholds)
        if not self.thresholds:
            raise ValueError("thresholds is empty; name at least one cut point between rewards, such as [0.5]")
        if not all(map(math.isfinite, self.thresholds)):
            raise ValueError(f"thresholds must be finite; got {list(self.thresholds)}")
        if any(lower >= upper for lower, upper in pairwise(self.thresholds)):
            raise ValueError(f"thresholds must increase; got {list(self.thresholds)}")
        super().__init__(
            group_size=group_size, num_strata=len(self.thresholds) + 1, random_order=random_order, seed=seed
        )

    def strata(self, pool: ResponsePool) -> Mapping[float, int]:
        """Return the number of thresholds below each reward of the pool."""
        return {response.reward: bisect_left(self.thresholds, response.reward) for response in pool.responses}
