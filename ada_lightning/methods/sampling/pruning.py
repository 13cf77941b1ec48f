"""Leaves out prompts of little expected advantage at random, before they cost a response."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ada_lightning.core.protocols import PoolEnd, Trait
from ada_lightning.core.records import Belief, ResponsePool
from ada_lightning.core.stopping.rule import FixedRule
from ada_lightning.methods.checked import Check
from ada_lightning.methods.sampling.uniform import UniformSampler


@dataclass(kw_only=True, eq=False)
class PruningSampler(UniformSampler):
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
        ValueError: ``rate`` outside [0, 1), or no response.

    Source:
        "Unbiased Dynamic Pruning for Efficient Group-Based Policy Optimization", arXiv:2603.04135, prompt level.
    """

    traits = frozenset({Trait.LEAVES_OUT_PROMPTS})

    rate: float
    """Probability with which a prompt below the mean is left out (the paper's r_q)."""
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
        threshold = sum(scores) / max(len(scores), 1) * (1.0 - 1e-9)
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

    def bend(self) -> str:
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
