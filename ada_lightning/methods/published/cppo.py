"""CPPO: the responses of a pool, or of a whole rollout, with the largest advantages train (arXiv:2503.22342).

Fidelity: faithful, and biased as the paper's. The batch-wide choice is that of its verl implementation. The paper
spends the time that pruning saves on more prompts per step; ``data.prompts_per_step`` is not raised by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ada_lightning.core.options import option, use
from ada_lightning.core.protocols import Trait
from ada_lightning.core.records import KeptResponse, ResponsePool
from ada_lightning.methods.advantages import PoolMeanAdvantage
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection.magnitude import AdvantageSelection, by_magnitude, floor_share
from ada_lightning.methods.selection.weights import with_selection_weights


@option("selection", "largest_advantage")
@dataclass(kw_only=True, eq=False)
class LargestAdvantageSelection(AdvantageSelection):
    """The responses of each pool with the largest absolute advantage; biased (CPPO). Goes with ``advantage=official``.

    Keeps ``floor((1 - rate) n)`` of n, at least one.

    The claim: a response with a small advantage moves the policy little and costs as much as any other. So leaving it
    out saves the update's time (up to 8 times) at no loss. The time is to be spent on more prompts per step
    (``data.prompts_per_step``).

    Assumed: advantages are computed over the whole pool before pruning (``advantage=official``). Nothing undoes the
    pruning, so the update is biased: among n responses of which few are right the wrong ones go first, and their pull
    with them. :class:`~ada_lightning.methods.selection.PruningSelection` is the unbiased rule.

    Degenerate: in a pool of equal rewards all advantages are 0, and the first generated are kept, without signal; where
    half of a pool is right all advantages are equally large, and the first generated of either class are kept.

    Source:
        CPPO, completion pruning.
    """

    traits = frozenset({Trait.RANKS_BY_ADVANTAGE, Trait.MAY_DROP_A_CLASS})

    rate: float = 0.5
    """Share of a pool that is pruned, the paper's P (CPPO: 0.5 to 0.9375)."""

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses in launch order; of equally large advantages the first generated."""
        ranked = by_magnitude([pool], normalize_std=False)
        largest = ranked[: max(floor_share(len(ranked), 1.0 - self.rate), 1)]
        return with_selection_weights(pool, [pool.responses[index] for _, index in sorted(largest)])

    def caveat(self) -> str:
        """Say what it does to the update."""
        return (
            f"selection: of each pool the {self.rate:.0%} with the smallest advantages are left out and nothing undoes "
            "it: biased"
        )


@option("selection", "largest_advantage_batch", normalize_std="${advantage.normalize_std}")
@dataclass(kw_only=True, eq=False)
class LargestAdvantageBatchSelection(AdvantageSelection):
    """The responses of a whole step with the largest absolute advantage; biased (CPPO for verl).

    Goes with ``advantage=official``. Keeps ``floor((1 - rate) n)`` of all n of a step.

    The claim is that of :class:`LargestAdvantageSelection`; taken over the batch, prompts without a signal lose all
    their responses first, and prompts where one class is rare keep most.

    Assumed: advantages of different prompts can be compared. With ``normalize_std`` a rare right answer has the
    largest of all, so the choice leans towards hard and towards nearly solved prompts. Biased, as the rule per pool is.

    Degenerate: where fewer responses have an advantage than are to be kept, all of those train, and responses without
    one fill the rest in order of their prompts; they have no signal.
    """

    traits = frozenset({Trait.RANKS_BY_ADVANTAGE, Trait.MAY_DROP_A_CLASS, Trait.COMPARES_POOLS})

    rate: float = 0.5
    """Share of a step's responses that is pruned (CPPO: 0.5 to 0.9375)."""
    normalize_std: bool
    """Compare advantages over their pool's standard deviation; set as in the advantage that trains."""

    def select_all(self, pools: Sequence[ResponsePool]) -> Sequence[tuple[KeptResponse, ...]]:
        """Return the kept responses of each pool in launch order; of equal advantages those of earlier prompts."""
        ranked = by_magnitude(pools, normalize_std=self.normalize_std)
        kept: list[list[int]] = [[] for _ in pools]
        for position, index in sorted(ranked[: floor_share(len(ranked), 1.0 - self.rate)]):
            kept[position].append(index)
        return [
            with_selection_weights(pool, [pool.responses[index] for index in indices])
            for pool, indices in zip(pools, kept, strict=True)
        ]

    def caveat(self) -> str:
        """Say what it does to the update."""
        return (
            f"selection: of all responses of a step the {self.rate:.0%} with the smallest advantages are left out and "
            "nothing undoes it: biased"
        )


CPPO = known(
    Recipe(
        name="cppo",
        card=Card(
            table="training",
            changes="trains on the largest absolute advantages of a group, or of the step",
            cost="n drawn, (1 - rate) n trained",
            fidelity="faithful, biased",
            departs="The number of prompts per step is not raised by itself.",
            also=("cppo_batch",),
        ),
        checked=Comparison(
            rule="which responses stay",
            against="by hand",
            test=(
                "unit/methods/selection/test_largest_advantage.py::test_of_the_batch_the_largest_stay_whoever_they_belong_to"
            ),
            also=("cppo_batch",),
        ),
        text="""
            CPPO (arXiv:2503.22342): the responses of a group with the smallest advantages are left out of the update,
            which biases it. Advantages are GRPO's, over the whole group, before pruning. The paper spends the time
            saved on more prompts per step: data.prompts_per_step=128 instead of 32 with rate 0.75.
        """,
        sampler=use(UniformSampler, group_size=16),
        selection=use(LargestAdvantageSelection, rate=0.75),
        advantage=use(PoolMeanAdvantage, normalize_std=True),
        reduction="response_mean",
    )
)
CPPO_BATCH = known(
    CPPO.with_(
        name="cppo_batch",
        text="""
            CPPO's variant for verl (arXiv:2503.22342): the responses with the smallest advantages of a whole step are
            left out, which biases the update.
        """,
        selection=LargestAdvantageBatchSelection,
        settings={"selection.rate": 0.75},
    )
)
