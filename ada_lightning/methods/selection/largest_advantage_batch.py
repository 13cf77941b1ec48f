"""The responses of a whole rollout with the largest advantages (CPPO's variant for verl)."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.core.protocols import Selection, Trait
from ada_lightning.core.records import KeptResponse, ResponsePool
from ada_lightning.methods.selection.largest_advantage import check_pruning_rate, floor_share, rounded
from ada_lightning.methods.selection.magnitude import pool_advantages
from ada_lightning.methods.selection.weights import with_selection_weights


class LargestAdvantageBatchSelection(Selection):
    """Keeps the ``floor((1 - rate) n)`` responses of all pools together with the largest absolute advantage.

    The claim is that of :class:`~ada_lightning.methods.selection.LargestAdvantageSelection`; taken over the batch,
    prompts without a signal lose all their responses first, and prompts where one class is rare keep most.

    Assumed: advantages of different prompts can be compared. With ``normalize_std`` a rare right answer has the
    largest of all, so the choice leans towards hard and towards nearly solved prompts. Biased, as the rule per pool is.

    Degenerate: where fewer responses have an advantage than are to be kept, all of those train, and responses without
    one fill the rest in order of their prompts; they have no signal.

    Args:
        rate: share of the rollout's responses that is pruned; 0 keeps everything.
        normalize_std: compare advantages over their pool's standard deviation; set as in the advantage that trains.

    Raises:
        ValueError: ``rate`` outside [0, 1).

    Source:
        CPPO, arXiv:2503.22342; the batch-wide choice is that of its verl implementation.
    """

    traits = frozenset({Trait.RANKS_BY_ADVANTAGE, Trait.MAY_DROP_A_CLASS, Trait.COMPARES_POOLS})

    def __init__(self, *, rate: float, normalize_std: bool) -> None:
        check_pruning_rate(rate)
        self.rate = rate
        self.normalize_std = normalize_std

    def select_all(self, pools: Sequence[ResponsePool]) -> Sequence[tuple[KeptResponse, ...]]:
        """Return the kept responses of each pool in launch order; of equal advantages those of earlier prompts."""
        candidates = [
            (-rounded(abs(advantage)), position, index)
            for position, pool in enumerate(pools)
            for index, advantage in enumerate(pool_advantages(pool, normalize_std=self.normalize_std))
            if not pool.responses[index].is_masked
        ]
        kept: list[list[int]] = [[] for _ in pools]
        for _, position, index in sorted(candidates)[: floor_share(len(candidates), 1.0 - self.rate)]:
            kept[position].append(index)
        return [
            with_selection_weights(pool, [pool.responses[index] for index in sorted(indices)])
            for pool, indices in zip(pools, kept, strict=True)
        ]

    def bend(self) -> str:
        """Say what it does to the update."""
        return (
            f"selection: of all responses of a step the {self.rate:.0%} with the smallest advantages are left out and "
            "nothing undoes it: biased"
        )
