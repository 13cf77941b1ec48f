"""Keeps a small group from every stratum of rewards: balanced selection for rewards that are not binary."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ada_lightning.core.options import option
from ada_lightning.core.records import KeptResponse, Response, ResponsePool
from ada_lightning.methods.checked import Check, at_least
from ada_lightning.methods.selection.by_class import ClassSelection
from ada_lightning.methods.selection.weights import with_selection_weights


class RewardStrataSelection(ClassSelection):
    """Equal shares of ``group_size`` for the strata that occur in a pool; what one lacks goes to the largest ones.

    Every stratum that can train keeps at least one response, so the weights ``N_s / m_s`` give each stratum s its share
    of the pool. They are weights per stratum and not per class of positives and negatives: estimators that read the
    number of kept positives out of them (:func:`~ada_lightning.methods.functional.class_contrast`) are refused by
    the config check.
    """

    num_strata: int
    """Most strata that a pool can have."""

    def strata(self, pool: ResponsePool) -> Mapping[float, int]:
        """Return the stratum of each reward that occurs in the pool, from 0 (lowest) to ``num_strata - 1``."""
        raise NotImplementedError

    def _checks(self) -> Iterator[Check]:
        yield from super()._checks()
        yield (
            self.group_size >= self.num_strata,
            f"group_size = {self.group_size} is less than the number of strata = {self.num_strata}: some stratum would "
            f"never train; use group_size = {self.num_strata} or fewer strata",
        )

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses, highest stratum first, each stratum in launch order."""
        stratum_of_reward = self.strata(pool)
        members: list[list[Response]] = [[] for _ in range(self.num_strata)]
        for response in pool.trainable():
            members[stratum_of_reward[response.reward]].append(response)
        members.reverse()
        kept = self.take(pool, members, _num_kept([len(stratum) for stratum in members], self.group_size))
        return with_selection_weights(pool, kept, lambda response: stratum_of_reward[response.reward])


@option("selection", "stratified", group_size="${sampler.group_size}")
@dataclass(kw_only=True, eq=False)
class StratifiedSelection(RewardStrataSelection):
    """Some of every stratum of rewards; for rewards that are not binary, with ``advantage=weighted_leave_one_out``.

    The strata lie between fixed thresholds, the same for all pools. A stratum that is empty in a pool leaves its share
    to the others. So does one that no reward can ever reach, such as the one above 1 where rewards are in [0, 1]: the
    update stays right, and the group is cut into fewer strata than it seems. What a reward can return is not known
    here; ``responses/`` of a run shows what it did.

    Example:
        >>> from ada_lightning.core.records import Prompt, ResponsePool
        >>> StratifiedSelection(group_size=4, thresholds=[0.3, 0.7]).select(ResponsePool(Prompt("x", ()), slot=0))
        ()
    """

    thresholds: Sequence[float] = (0.0, 0.5, 0.9)
    """Cut points between strata, increasing, in the reward's unit. A reward that equals a threshold belongs below it,
    as with ``rollout.positive_threshold``."""

    def __post_init__(self) -> None:
        self.thresholds = tuple(float(threshold) for threshold in self.thresholds)
        self.num_strata = len(self.thresholds) + 1
        super().__post_init__()

    def _checks(self) -> Iterator[Check]:
        yield bool(self.thresholds), "thresholds is empty; name at least one cut point between rewards, such as [0.5]"
        yield all(map(math.isfinite, self.thresholds)), f"thresholds must be finite; got {list(self.thresholds)}"
        yield (
            not any(lower >= upper for lower, upper in pairwise(self.thresholds)),
            f"thresholds must increase; got {list(self.thresholds)}",
        )
        yield from super()._checks()

    def strata(self, pool: ResponsePool) -> Mapping[float, int]:
        """Return the number of thresholds below each reward of the pool."""
        return {response.reward: bisect_left(self.thresholds, response.reward) for response in pool.responses}


@option("selection", "quantile", group_size="${sampler.group_size}")
@dataclass(kw_only=True, eq=False)
class QuantileSelection(RewardStrataSelection):
    """Some of every quantile of the pool's own rewards; with ``advantage=weighted_leave_one_out``.

    Needs no thresholds, and suits rewards of any unit. Labels depend on the pool: one reward can be in the top stratum
    of a hard prompt and in the bottom stratum of an easy one, and a response's stratum depends on which others were
    drawn. Equal rewards share a stratum, which their mid-rank decides, so a rare reward at either end is set apart from
    a frequent one; a pool in which few different rewards occur has fewer strata.
    """

    num_strata: int = 4
    """Quantiles to tell apart."""

    def _checks(self) -> Iterator[Check]:
        yield from at_least(2, num_strata=self.num_strata)
        yield from super()._checks()

    def strata(self, pool: ResponsePool) -> Mapping[float, int]:
        """Return the quantile of each reward: its mid-rank, (lower ones + half of the equal ones) / all, in strata."""
        stratum_of_reward = {}
        num_lower = 0
        for reward, num_equal in sorted(Counter(response.reward for response in pool.responses).items()):
            stratum_of_reward[reward] = self.num_strata * (2 * num_lower + num_equal) // (2 * pool.num_sampled)
            num_lower += num_equal
        return stratum_of_reward


def _num_kept(sizes: Sequence[int], group_size: int) -> list[int]:
    """Divide a group among strata that are not empty: equal shares first, then one by one to whichever has most left.

    Example:
        >>> _num_kept([1, 20, 0], 6), _num_kept([4, 20, 0], 8), _num_kept([9, 9, 9], 4)
        ([1, 5, 0], [4, 4, 0], [2, 1, 1])
    """
    num_occurring = sum(size > 0 for size in sizes)
    num_kept = [min(group_size // max(num_occurring, 1), size) for size in sizes]
    for _ in range(min(group_size, sum(sizes)) - sum(num_kept)):
        left_over = [size - number for size, number in zip(sizes, num_kept, strict=True)]
        num_kept[left_over.index(max(left_over))] += 1
    return num_kept
