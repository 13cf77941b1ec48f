"""Divide the step among prompts by what is believed of their pass rates, and sample once (Reinforce-Ada-Est)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ada_lightning.functional.allocation import allocate
from ada_lightning.stopping.rule import FixedRule, StoppingRule
from ada_lightning.types import ResponsePool


class EstimatedSampler:
    """A prompt gets responses in proportion to ``pass_rate^-gamma``, in a single pass, with a fixed total per step.

    How many is settled before the first response, by the beliefs alone, so each pool is a sample of a fixed size: its
    mean is unbiased and the exact estimator holds for it. Responses that are no evidence are not drawn anew.

    Where every response trains and counts the same (``official`` with ``token_mean``), the allocation is itself a
    weight: the update follows ``p^-gamma`` times the explicit weight of the advantage, for log 1/2 and 1/2 in the
    paper, 1 and 0 in the public code. An advantage that divides by the size of the pool (``exact``, ``stratified``)
    carries the whole weight itself; ``gamma`` then only decides where its variance is low.

    Args:
        responses_per_prompt: mean over the prompts of a step; times their number it is the step's total, met exactly.
        gamma: power of the pass rate: 1/2 is the paper, 1 the public code, 0 gives every prompt the same.
        n_min: fewest responses per prompt and step. One response alone can carry no signal.
        n_max: most responses per prompt and step; the public code has no limit, and its batches fill with hard prompts.
        group_size: most responses kept for the update; ``n_max`` where all of them train.

    Raises:
        ValueError: a value out of range, or a mean that the bounds cannot meet; all in one message.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, Algorithm 1 (its epsilon is the estimator's prior here, which keeps pass
        rates off 0) and appendix C.2. Public code: ``ray_trainer_ema.py`` L1014-1041 at e876f3e.

    Example:
        >>> from ada_lightning.types import Belief, Prompt, ResponsePool
        >>> hard = ResponsePool(Prompt("hard", ()), slot=0, belief=Belief(1, 15))
        >>> easy = ResponsePool(Prompt("easy", ()), slot=1, belief=Belief(9, 7))
        >>> sampler = EstimatedSampler(responses_per_prompt=8, gamma=0.5, n_min=2, n_max=32, group_size=32)
        >>> sampler.plan([hard, easy])  # sqrt(1/16) to sqrt(9/16) is 1 to 3
        >>> sampler.num_to_draw(hard), sampler.num_to_draw(easy)
        (12, 4)
    """

    budget_per_step = 0

    def __init__(
        self, *, responses_per_prompt: int, gamma: float = 0.5, n_min: int = 2, n_max: int = 32, group_size: int = 32
    ) -> None:
        errors = []
        if n_min < 1:
            errors.append(f"n_min must be at least 1; got {n_min}")
        if n_max < n_min:
            errors.append(f"n_max = {n_max} is less than n_min = {n_min}; raise n_max")
        if responses_per_prompt < n_min:
            errors.append(
                f"responses_per_prompt = {responses_per_prompt} is less than n_min = {n_min}: every prompt gets at "
                "least n_min; raise responses_per_prompt or lower n_min"
            )
        if responses_per_prompt > n_max:
            errors.append(
                f"responses_per_prompt = {responses_per_prompt} exceeds n_max = {n_max}: no prompt gets more than "
                "n_max; lower responses_per_prompt or raise n_max"
            )
        if not 0 <= gamma < math.inf:
            errors.append(f"gamma must be 0 (uniform) or positive, and finite; got {gamma}")
        if not 1 <= group_size <= max(n_max, 1):
            errors.append(f"group_size must be in [1, n_max = {n_max}]; got {group_size}")
        if errors:
            raise ValueError("; ".join(errors))
        self.responses_per_prompt = responses_per_prompt
        self.gamma = gamma
        self.n_min = n_min
        self.n_max = n_max
        self.group_size = group_size
        self.samples_per_round = n_max
        self._planned: dict[int, int] = {}

    def plan(self, pools: Sequence[ResponsePool]) -> None:
        """Divide ``responses_per_prompt`` times the number of pools by the pools' beliefs."""
        pass_rates = [pool.belief.mean for pool in pools]
        lowest = min(pass_rates, default=1.0)
        # Relative to the lowest pass rate a weight is at most 1, so that no power overflows.
        weights = [(lowest / pass_rate) ** self.gamma for pass_rate in pass_rates]
        counts = allocate(weights, self.responses_per_prompt * len(pools), self.n_min, self.n_max)
        self._planned = {pool.slot: count for pool, count in zip(pools, counts, strict=True)}

    def num_to_draw(self, pool: ResponsePool) -> int:
        """All planned responses at once, then nothing."""
        return max(0, self._planned[pool.slot] - pool.num_drawn)

    def stopping_rule(self, pool: ResponsePool) -> StoppingRule:
        """Stop at the planned number, which is fixed before the pool's first response."""
        return FixedRule(self._planned[pool.slot])

    def observe(self, pools: Sequence[ResponsePool]) -> None:
        """Nothing to learn: the estimator does."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing outlives a step: the plan follows from the beliefs."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Accept :meth:`state_dict`."""
