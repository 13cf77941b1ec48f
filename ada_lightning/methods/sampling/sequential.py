"""Sample a prompt block by block until its pool holds the signal that was asked for (Reinforce-Ada-Seq).

Claim: a prompt whose pool has a right and a wrong answer is worth its responses, so spend them until it does.
Assumption: rewards are binary, and responses of one pool are draws of one pass rate. Degenerate case: prompts near pass
rates of 0 and 1 cost ``n_max`` each and mostly train nothing, which is what ``give_up`` is for.

Source:
    Reinforce-Ada, arXiv:2510.04996v3, Algorithm 2 and section 3.2 (exit conditions "pos" and "balance"); official code
    ``verl/trainer/ppo/ray_trainer.py``, ``_generate_multi_round_adaptive_downsampling`` ("pos": ``positive_focused``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

from ada_lightning.core.options import option, preset, use
from ada_lightning.core.protocols import PoolEnd
from ada_lightning.core.records import ResponsePool
from ada_lightning.core.stopping.posterior import (
    completion_chance,
    expected_draws,
    expected_draws_until_stop,
    going_on_chance,
)
from ada_lightning.core.stopping.rule import QuotaRule
from ada_lightning.methods.checked import Check, at_least
from ada_lightning.methods.sampling.blocks import BlockSampler
from ada_lightning.methods.sampling.giving_up import NEVER, GiveUpByPosterior, GivingUp, NeverGiveUp


@dataclass(kw_only=True, eq=False)
class SequentialSampler(BlockSampler):
    """Blocks of ``samples_per_round`` until the quotas are met, the prompt is given up, or ``n_max`` responses are in.

    Decides on complete blocks only, as the published algorithm does, so the distribution of a pool depends on the
    pass rate alone and not on when responses happened to finish. A response that is no evidence does not count
    towards its block and is drawn anew.

    Raises:
        ValueError: a size out of range, quotas or ``group_size`` above ``n_max``, or blocks that do not divide
            ``n_max``; all of them in one message.
    """

    k_pos: int
    """Positives wanted."""
    give_up: GivingUp = NEVER
    """When to stop without the quotas. ``sampler=balance_posterior`` and ``positive_posterior`` give up on prompts that
    will hardly pay."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.quota = QuotaRule(
            **({"k_neg": 0} | self.quotas()), samples_per_round=self.samples_per_round, n_max=self.n_max
        )

    def quotas(self) -> dict[str, int]:
        """What a pool must hold, by name."""
        return {"k_pos": self.k_pos}

    def _checks(self) -> Iterator[Check]:
        yield from at_least(1, **self.quotas())
        names, total = " + ".join(self.quotas()), sum(self.quotas().values())
        yield (
            total <= self.n_max,
            f"{names} = {total} exceeds n_max = {self.n_max}: no pool could ever resolve; raise n_max",
        )
        yield from super()._checks()

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Return the rule that this prompt's sampling follows."""
        return PoolEnd(self.give_up.rule(self.quota, pool))

    def frozen(self) -> Self:
        """Copy what may learn meanwhile, too."""
        frozen = super().frozen()
        frozen.give_up = copy(self.give_up)
        return frozen

    def chance_to_go_on(self, pool: ResponsePool, num_positive: int, num_negative: int, num_open: int) -> float:
        """Probability that the quotas are open and the prompt not given up after ``num_open`` more; 0 at the cap."""
        if num_positive + num_negative + num_open >= self.n_max:
            return 0.0
        alpha, beta = pool.belief.alpha, pool.belief.beta
        rule = self.give_up.rule(self.quota, pool)
        if rule == self.quota:
            return 1.0 - completion_chance(self.quota, alpha, beta, num_positive, num_negative, num_open)
        return going_on_chance(rule, self.quota, (alpha, beta), (num_positive, num_negative), num_open)

    def expected_need(self, pool: ResponsePool) -> float:
        """Responses until the quotas are expected to be met or the prompt is given up."""
        alpha, beta = pool.belief.alpha, pool.belief.beta
        rule = self.give_up.rule(self.quota, pool)
        if rule == self.quota:
            return expected_draws(self.quota, alpha, beta, pool.num_positive, pool.num_negative)
        return expected_draws_until_stop(rule, (alpha, beta), (pool.num_positive, pool.num_negative))

    def learn(self, pools: Sequence[ResponsePool]) -> None:
        """Let the rule for giving up learn."""
        self.give_up.learn(pools)

    def state_dict(self) -> dict[str, Any]:
        """What the rule for giving up remembers."""
        return {"give_up": self.give_up.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.give_up.load_state_dict(state.get("give_up", {}))


_GIVEN_UP = "and a prompt is given up once a signal from it is expected to cost more than the run usually pays."


@option("sampler", "positive", give_up=use(NeverGiveUp))
@dataclass(kw_only=True, eq=False)
class PositiveSampler(SequentialSampler):
    """Reinforce-Ada-Seq-pos: sample until k_pos positives, at most n_max (arXiv:2510.04996v3, 3.2).

    Cheaper than balance on easy prompts, which it may leave without a negative.
    """

    k_pos: int = 1
    """Positives wanted."""


preset(
    "sampler",
    "positive_posterior",
    "positive",
    text=f"sampler=positive, {_GIVEN_UP}",
    give_up=use(GiveUpByPosterior),
)


@option("sampler", "balance", give_up=use(NeverGiveUp))
@dataclass(kw_only=True, eq=False)
class BalanceSampler(SequentialSampler):
    """Reinforce-Ada-Seq-balance: sample until k_pos positives and k_neg negatives, at most n_max.

    arXiv:2510.04996v3, 3.2.

    Example:
        >>> from ada_lightning.core.records import Prompt, ResponsePool
        >>> sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)
        >>> sampler.num_to_draw(ResponsePool(Prompt("x", ()), slot=0))
        4
    """

    k_pos: int = 2
    """Positives wanted."""
    k_neg: int = 2
    """Negatives wanted."""

    def quotas(self) -> dict[str, int]:
        """Both classes."""
        return {"k_pos": self.k_pos, "k_neg": self.k_neg}


preset(
    "sampler",
    "balance_posterior",
    "balance",
    text=f"sampler=balance, {_GIVEN_UP}",
    give_up=use(GiveUpByPosterior),
)
