"""Sample a prompt block by block until its pool holds the signal that was asked for (Reinforce-Ada-Seq)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Self

from ada_lightning.core.protocols import PoolEnd
from ada_lightning.core.records import ResponsePool
from ada_lightning.core.stopping.posterior import (
    completion_chance,
    expected_draws,
    expected_draws_until_stop,
    going_on_chance,
)
from ada_lightning.core.stopping.rule import QuotaRule
from ada_lightning.methods.sampling.blocks import BlockSampler
from ada_lightning.methods.sampling.giving_up import NEVER, GivingUp


class SequentialSampler(BlockSampler):
    """Blocks of ``samples_per_round`` until the quotas are met, the prompt is given up, or ``n_max`` responses are in.

    Decides on complete blocks only, as the published algorithm does, so the distribution of a pool depends on the
    pass rate alone and not on when responses happened to finish. A response that is no evidence does not count
    towards its block and is drawn anew.

    Args:
        k_pos: positives wanted.
        k_neg: negatives wanted.
        samples_per_round: responses per block (the paper's M).
        n_max: most responses per prompt and step (the paper's N_max).
        group_size: most responses kept for the update (the paper's n).
        give_up: when to stop without the quotas; :class:`~ada_lightning.methods.sampling.giving_up.NeverGiveUp` by
            default.
        budget_per_step: most responses of a whole rollout step; 0 sets no limit.

    Raises:
        ValueError: a size out of range, quotas or ``group_size`` above ``n_max``, or blocks that do not divide
            ``n_max``; all of them in one message.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, Algorithm 2; official code ``verl/trainer/ppo/ray_trainer.py``,
        ``_generate_multi_round_adaptive_downsampling``.
    """

    def __init__(
        self,
        *,
        k_pos: int,
        k_neg: int,
        samples_per_round: int,
        n_max: int,
        group_size: int,
        give_up: GivingUp = NEVER,
        budget_per_step: int = 0,
    ) -> None:
        self.quota = QuotaRule(k_pos=k_pos, k_neg=k_neg, samples_per_round=samples_per_round, n_max=n_max)
        self.give_up = give_up
        super().__init__(
            samples_per_round=samples_per_round,
            n_max=n_max,
            group_size=group_size,
            budget_per_step=budget_per_step,
        )

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

    def _size_errors(self) -> list[str]:
        """Add what is wrong with the quotas."""
        quotas = {"k_pos": self.quota.k_pos} | ({"k_neg": self.quota.k_neg} if self.quota.k_neg else {})
        errors = [f"{name} must be at least 1; got {value}" for name, value in quotas.items() if value < 1]
        total = sum(quotas.values())
        if total > self.n_max:
            names = " + ".join(quotas)
            errors.append(f"{names} = {total} exceeds n_max = {self.n_max}: no pool could ever resolve; raise n_max")
        return errors + super()._size_errors()
