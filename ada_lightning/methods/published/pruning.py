"""Unbiased dynamic pruning: leave out prompts and responses of little advantage at random (after arXiv:2603.04135).

Prompts are left out before they cost a response, responses before they cost an update; what stays weighs
``1 / (1 - rate)``, so that nothing is lost in expectation.

Fidelity: after. Which probability belongs to whom is ours; the appendix's fixed share, biased, is that of
``selection=largest_advantage``; there is no dense prompt packing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ada_lightning.core.options import option
from ada_lightning.core.protocols import PoolEnd, Trait
from ada_lightning.core.records import Belief, KeptResponse, ResponsePool
from ada_lightning.core.stopping.rule import FixedRule
from ada_lightning.methods.advantages import PoolMeanAdvantage
from ada_lightning.methods.checked import Check
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection.magnitude import AdvantageSelection, pool_advantages
from ada_lightning.methods.selection.weights import with_selection_weights

_RELATIVE_TIE = 1e-9
"""Advantages nearer than this to their mean are not below it."""


@option("sampler", "pruning")
@dataclass(kw_only=True, eq=False)
class PruningSampler(UniformSampler):
    """A fixed group per prompt; prompts believed to have little advantage are left out at random.

    Those that stay weigh more (after arXiv:2603.04135, prompt level). Goes with ``selection=all`` or ``pruning``.

    The claim: the level of pruning that saves decoding. A prompt whose mean absolute advantage is expected to be below
    that of the step's prompts is left out with probability ``rate``. If it stays, its responses weigh ``1 / (1 -
    rate)`` (:attr:`~ada_lightning.core.records.ResponsePool.inverse_probability`), on top of what a selection that
    prunes responses adds. So the expected update is that of the whole step.

    Assumed, and kept here: the probability is fixed before the draw, by beliefs alone; a prompt that is left out still
    counts in the loss's denominator (``loss/reduction=constant`` divides by the prompts of the step). The expected
    mean absolute advantage of a pass rate p is ``2 p (1 - p)``; of a Beta belief it is ``2 E[p (1 - p)]``. The paper
    keeps an average of past advantages instead; the estimator's belief is that with the run's own memory.

    Degenerate: prompts never sampled are never pruned; where all beliefs are equal nothing is.

    Raises:
        ValueError: ``rate`` outside [0, 1), or no response.

    Source:
        "Unbiased Dynamic Pruning for Efficient Group-Based Policy Optimization", arXiv:2603.04135, prompt level.
    """

    traits = frozenset({Trait.LEAVES_OUT_PROMPTS})

    group_size: int = 8
    """Responses per prompt and step."""
    rate: float = 0.5
    """Probability with which a prompt below the step's mean is left out (the paper's r_q, up to 0.7)."""
    seed: int = 0
    """Of the draws; with step, slot and prompt it decides, so a repeated or resumed step prunes the same."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._seen: set[str] = set()
        self._small: set[int] = set()
        self._pruned: set[int] = set()

    def _checks(self) -> Iterator[Check]:
        yield from super()._checks()
        yield 0 <= self.rate < 1, f"sampler.rate must be in [0, 1), the share that is pruned; got {self.rate}"

    def plan(self, pools: Sequence[ResponsePool], stage: int = 0) -> None:
        """Draw who is left out."""
        scores = [expected_advantage(pool.belief) for pool in pools]
        threshold = sum(scores) / max(len(scores), 1) * (1.0 - _RELATIVE_TIE)
        small = [
            pool
            for score, pool in zip(scores, pools, strict=True)
            if score < threshold and pool.prompt.prompt_id in self._seen
        ]
        self._small = {pool.slot for pool in small}
        self._pruned = {pool.slot for pool in small if self._draws_out(pool)}

    def num_to_draw(self, pool: ResponsePool) -> int:
        """Nothing for a prompt that is left out, the whole group of another."""
        return 0 if pool.slot in self._pruned else super().num_to_draw(pool)

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Say what a prompt that stays weighs; who is left out was not looked at."""
        weight = 1.0 / (1.0 - self.rate) if pool.slot in self._small else 1.0
        if pool.slot in self._pruned:
            return PoolEnd(is_resolved=True, inverse_probability=weight)
        return PoolEnd(FixedRule(self.group_size), inverse_probability=weight)

    def learn(self, pools: Sequence[ResponsePool]) -> None:
        """Note who was sampled."""
        seen = {pool.prompt.prompt_id for pool in pools if pool.num_sampled}
        self._seen = self._seen | seen  # another set: open steps plan with the one they began with

    def state_dict(self) -> dict[str, Any]:
        """Prompts that were sampled."""
        return {"seen": sorted(self._seen)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._seen = set(state["seen"])

    def caveat(self) -> str:
        """Say what it does to the update."""
        return (
            f"sampler: prompts of little expected advantage are left out with probability {self.rate:g} and weighed by "
            "its inverse: the expected update is that of all prompts"
        )

    def _draws_out(self, pool: ResponsePool) -> bool:
        key = f"prune prompt/{self.seed}/{pool.step}/{pool.slot}/{pool.prompt.prompt_id}"
        return random.Random(key).random() < self.rate


def expected_advantage(belief: Belief) -> float:
    """Expected mean absolute distance of a 0/1 reward from its mean: ``2 E[p (1 - p)]`` under a Beta belief.

    Example:
        >>> expected_advantage(Belief(1, 1)), expected_advantage(Belief(1e6, 1e6)) < 0.5
        (0.3333333333333333, True)
    """
    total = belief.alpha + belief.beta
    return 2.0 * belief.alpha * belief.beta / (total * (total + 1.0))


@option("selection", "pruning")
@dataclass(kw_only=True, eq=False)
class PruningSelection(AdvantageSelection):
    """Small advantages are pruned at random and the rest weighed up: unbiased (after arXiv:2603.04135).

    A response whose absolute advantage is below its pool's mean is left out with probability ``rate``.
    ``advantage=official`` and ``loss/reduction=constant`` go with it: neither depends on what was pruned.

    The claim: responses of little advantage cost as much as others; pruning them at random and weighing those of them
    that stay by ``1 / (1 - rate)`` (Horvitz-Thompson) gives the same expected update in less time.

    Assumed, and kept here: the probability is fixed before the draw, and the advantage does not depend on what was kept
    (``advantage=official`` takes mean and standard deviation of the whole pool). Neither does the denominator of the
    loss (``loss/reduction=constant``); one that divides by what was kept is off by nearly a factor of two in small
    batches. There is no clipping, and no KL and no entropy term, which are refused. Variance grows with ``1 / (1 -
    rate)``; the paper recommends at most 0.7.

    Degenerate: where half of a pool is right all advantages are equally large and nothing is pruned; a pool of equal
    rewards has nothing below its mean either, and is not computed anyway. All of a pool can be pruned only if no
    response reaches the mean, which cannot be.

    Source:
        "Unbiased Dynamic Pruning for Efficient Group-Based Policy Optimization", arXiv:2603.04135: pruning below the
        mean and the weights. Its appendix prunes a fixed fraction, which its proof does not cover and which is biased,
        as :class:`~ada_lightning.methods.published.cppo.LargestAdvantageSelection` is. Which probability belongs to
        which response is not stated; below the mean or not is the rule of InfoBatch (arXiv:2303.04947), which it builds
        on.
    """

    traits = frozenset({Trait.RANKS_BY_ADVANTAGE, Trait.PRUNES_RESPONSES})

    rate: float = 0.5
    """Probability to prune a response below its pool's mean advantage (paper: up to 0.7)."""
    seed: int = 0
    """Of the draws; with step, slot and prompt it decides, so a repeated or resumed step prunes the same."""

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the responses that stay, in launch order.

        ``selection_weight`` is that of the pool before pruning, so whoever reads the kept numbers of a class out of it
        gets those before pruning too; ``inverse_probability`` alone undoes the pruning.
        """
        generator = random.Random(f"prune/{self.seed}/{pool.step}/{pool.slot}/{pool.prompt.prompt_id}")
        magnitudes = [abs(advantage) for advantage in pool_advantages(pool, normalize_std=False)]
        threshold = sum(magnitudes) / max(len(magnitudes), 1) * (1.0 - _RELATIVE_TIE)
        of_trainable = [
            value for value, response in zip(magnitudes, pool.responses, strict=True) if not response.is_masked
        ]
        kept = []
        for candidate, magnitude in zip(with_selection_weights(pool, pool.trainable()), of_trainable, strict=True):
            is_pruned = generator.random() < self.rate
            if magnitude >= threshold:
                kept.append(candidate)
            elif not is_pruned:
                kept.append(replace(candidate, inverse_probability=1.0 / (1.0 - self.rate)))
        return tuple(kept)

    def caveat(self) -> str:
        """Say what it does to the update."""
        return (
            f"selection: small advantages are pruned with probability {self.rate:g} and weighed by its inverse: the "
            "expected update is that of the whole pools"
        )


PRUNING = known(
    Recipe(
        name="pruning",
        card=Card(
            table="training",
            changes="leaves out prompts and responses at random, weighs by 1/probability",
            needs="`constant` reduction",
            cost="fewer drawn and trained",
            fidelity="after",
            departs=(
                "Which probability is ours. The appendix's fixed share, which is biased, is that of "
                "`selection=largest_advantage`. There is no dense prompt packing ([why](methods.md#what-is-not-here))."
            ),
        ),
        checked=Comparison(
            rule="the mean gradient after pruning",
            against="simulation",
            test="unit/methods/selection/test_pruning.py::test_the_mean_gradient_is_that_of_the_whole_pools",
        ),
        text="""
            Unbiased dynamic pruning (after arXiv:2603.04135): prompts and responses of little advantage are left out at
            random, and the others weigh more. The denominator is fixed, so the expected update is GRPO's without
            pruning. advantage.normalize_std divides by the deviation of the whole group, before pruning, as GRPO does.
        """,
        sampler=PruningSampler,
        selection=PruningSelection,
        advantage=PoolMeanAdvantage,
        reduction="constant",
        settings={"advantage.normalize_std": True},
    )
)
