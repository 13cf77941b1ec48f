"""Leaves out prompts of little expected advantage at random, before they cost a response."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from ada_lightning.core.named_state import load_named_state, named_state
from ada_lightning.core.protocols import Cut, PolicyView, PoolEnd, Sampler, Trait
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.methods.checked import Check, Checked


@dataclass(kw_only=True, eq=False)
class PruningSampler(Checked, Sampler):
    """Leaves out prompts believed to have little advantage with probability ``rate``, and weighs those that stay.

    The claim: the level of pruning that saves decoding. A prompt whose mean absolute advantage is expected to be below
    that of the step's prompts is left out with probability ``rate``; where it stays its responses weigh
    ``1 / (1 - rate)`` (:attr:`~ada_lightning.core.records.ResponsePool.inverse_probability`), on top of what a
    selection that prunes responses adds. So the expected update is that of the whole step.

    Assumed, and kept here: the probability is fixed before the draw, by beliefs alone; a prompt that is left out still
    counts in the loss's denominator (``loss/reduction=constant`` divides by the prompts of the step). The expected
    mean absolute advantage of a pass rate p is ``2 p (1 - p)``; of a Beta belief it is ``2 E[p (1 - p)]``. The paper
    keeps an average of past advantages instead; the estimator's belief is that with the run's own memory.

    Degenerate: prompts never sampled are never pruned; where all beliefs are equal nothing is.

    Raises:
        ValueError: ``rate`` outside [0, 1), or a sampler that divides a step between stages or labels it itself.

    Source:
        "Unbiased Dynamic Pruning for Efficient Group-Based Policy Optimization", arXiv:2603.04135, prompt level.
    """

    traits = frozenset({Trait.LEAVES_OUT_PROMPTS})

    sampler: Sampler
    """Who gets more of the prompts that stay, who stops."""
    rate: float
    """Probability with which a prompt below the mean is left out (the paper's r_q)."""
    seed: int = 0
    """Of the draws; with step, slot and prompt it decides, so a repeated or resumed step prunes the same."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.group_size = self.sampler.group_size
        self.samples_per_round = self.sampler.samples_per_round
        self.budget_per_step = self.sampler.budget_per_step
        self._seen: set[str] = set()
        self._small: set[int] = set()
        self._pruned: set[int] = set()

    def _checks(self) -> Iterator[Check]:
        yield 0 <= self.rate < 1, f"sampler.rate must be in [0, 1), the share that is pruned; got {self.rate}"
        yield (
            self.sampler.num_stages == 1 and Trait.GIVES_REWARDS not in self.sampler.traits,
            f"sampler.sampler: {type(self.sampler).__name__} plans in stages or labels pools itself, and "
            "PruningSampler cannot pass that on; use it without pruning, or sampler.sampler with UniformSampler",
        )

    def frozen(self) -> Self:
        """Freeze the inner sampler, too."""
        frozen = super().frozen()
        frozen.sampler = self.sampler.frozen()
        return frozen

    def plan(self, pools: Sequence[ResponsePool], stage: int = 0) -> None:
        """Draw who is left out, then let the inner sampler plan with the others."""
        scores = [expected_advantage(pool.belief) for pool in pools]
        threshold = sum(scores) / max(len(scores), 1) * (1.0 - 1e-9)
        small = [
            pool
            for score, pool in zip(scores, pools, strict=True)
            if score < threshold and pool.prompt.prompt_id in self._seen
        ]
        self._small = {pool.slot for pool in small}
        self._pruned = {pool.slot for pool in small if self._draws_out(pool)}
        self.sampler.plan([pool for pool in pools if pool.slot not in self._pruned])

    def num_to_draw(self, pool: ResponsePool) -> int:
        """Nothing for a prompt that is left out."""
        return 0 if pool.slot in self._pruned else self.sampler.num_to_draw(pool)

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Say what the inner sampler says, and what a prompt that stays weighs; who is left out was not looked at."""
        inner = PoolEnd(is_resolved=True) if pool.slot in self._pruned else self.sampler.end(pool)
        return replace(inner, inverse_probability=1.0 / (1.0 - self.rate) if pool.slot in self._small else 1.0)

    def cut(self, pool: ResponsePool, sample_index: int) -> Cut | None:
        """Say what the inner sampler says."""
        return self.sampler.cut(pool, sample_index)

    def chance_to_go_on(self, pool: ResponsePool, num_positive: int, num_negative: int, num_open: int) -> float:
        """Say what the inner sampler says of prompts that stay; no block of the others is drawn ahead."""
        if pool.slot in self._pruned:
            return 0.0
        return self.sampler.chance_to_go_on(pool, num_positive, num_negative, num_open)

    def expected_need(self, pool: ResponsePool) -> float:
        """Say what the inner sampler says of prompts that stay."""
        return 0.0 if pool.slot in self._pruned else self.sampler.expected_need(pool)

    def connect(self, policy: PolicyView) -> None:
        """Connect the inner sampler."""
        self.sampler.connect(policy)

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Let the inner sampler look at the training prompts."""
        self.sampler.check_prompts(prompts)

    def learn(self, pools: Sequence[ResponsePool]) -> None:
        """Note who was sampled."""
        sampled = [pool for pool in pools if pool.num_drawn]
        seen = {pool.prompt.prompt_id for pool in sampled if pool.num_sampled}
        self._seen = self._seen | seen  # another set: open steps plan with the one they began with
        self.sampler.learn(sampled)

    def state_dict(self) -> dict[str, Any]:
        """Prompts that were sampled, and what the inner sampler remembers."""
        return {"seen": sorted(self._seen), "sampler": named_state(self.sampler)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`.

        Raises:
            ValueError: an inner sampler of another class remembers something.
        """
        self._seen = set(state["seen"])
        load_named_state(self.sampler, state["sampler"], setting="sampler.sampler")

    def bend(self) -> str:
        """Say what it does to the update."""
        own = (
            f"sampler: prompts of little expected advantage are left out with probability {self.rate:g} and weighed by "
            "its inverse: the expected update is that of all prompts"
        )
        return "; ".join(filter(None, (own, self.sampler.bend())))

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
