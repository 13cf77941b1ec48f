"""A small group from every stratum of rewards: what balanced selection is for rewards that are not binary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ada_lightning.core.protocols import Selection
from ada_lightning.core.records import KeptResponse, Response, ResponsePool
from ada_lightning.methods.selection.choice import Choice
from ada_lightning.methods.selection.weights import with_selection_weights


class RewardStrataSelection(Selection):
    """Equal shares of ``group_size`` for the strata that occur in a pool; what one lacks goes to the largest ones.

    Every stratum that can train keeps at least one response, so the weights ``N_s / m_s`` give each stratum s its share
    of the pool. They are weights per stratum and not per class of positives and negatives: estimators that read the
    number of kept positives out of them (:func:`~ada_lightning.methods.functional.class_contrast`) are refused by
    the config check.

    Args:
        group_size: responses kept per prompt, fewer where the pool is smaller.
        num_strata: most strata that a pool can have.
        random_order: take a random choice of each stratum instead of the first generated.
        seed: of that choice; with prompt, slot and step it decides, so a resumed run chooses the same.

    Raises:
        ValueError: ``group_size`` below 1 or below ``num_strata``: some stratum would never train.
    """

    def __init__(self, *, group_size: int, num_strata: int, random_order: bool, seed: int) -> None:
        if group_size < 1:
            raise ValueError(f"group_size must be at least 1; got {group_size}")
        if group_size < num_strata:
            raise ValueError(
                f"group_size = {group_size} is less than the number of strata = {num_strata}: some stratum would never "
                f"train; use group_size = {num_strata} or fewer strata"
            )
        self.group_size = group_size
        self.num_strata = num_strata
        self.choice = Choice(is_random=random_order, seed=seed)

    def strata(self, pool: ResponsePool) -> Mapping[float, int]:
        """Return the stratum of each reward that occurs in the pool, from 0 (lowest) to ``num_strata - 1``."""
        raise NotImplementedError

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses, highest stratum first, each stratum in launch order."""
        stratum_of_reward = self.strata(pool)
        members: list[list[Response]] = [[] for _ in range(self.num_strata)]
        for response in pool.trainable():
            members[stratum_of_reward[response.reward]].append(response)
        members.reverse()
        kept = self.choice.take(pool, members, _num_kept([len(stratum) for stratum in members], self.group_size))
        return with_selection_weights(pool, kept, lambda response: stratum_of_reward[response.reward])


def _num_kept(sizes: Sequence[int], group_size: int) -> list[int]:
    """Divide a group among strata that are not empty: equal shares first, then one by one to whichever has most left.

    Example:
        >>> _num_kept([1, 20, 0], 6)
        [1, 5, 0]
        >>> _num_kept([4, 20, 0], 8)
        [4, 4, 0]
        >>> _num_kept([9, 9, 9], 4)
        [2, 1, 1]
    """
    num_occurring = sum(size > 0 for size in sizes)
    num_kept = [min(group_size // max(num_occurring, 1), size) for size in sizes]
    for _ in range(min(group_size, sum(sizes)) - sum(num_kept)):
        left_over = [size - number for size, number in zip(sizes, num_kept, strict=True)]
        num_kept[left_over.index(max(left_over))] += 1
    return num_kept
