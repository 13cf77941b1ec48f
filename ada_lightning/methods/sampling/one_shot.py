"""What all samplers share that divide a step by beliefs and sample once."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.core.protocols import PoolEnd
from ada_lightning.core.records import Belief, ResponsePool
from ada_lightning.core.stopping.rule import FixedRule
from ada_lightning.methods.sampling.planned import PlannedSampler


class OneShotSampler(PlannedSampler):
    """Settles before a step's first response how many each prompt gets, and draws them in a single pass.

    The plan looks at beliefs and at earlier steps only, so each pool is a sample of a size fixed beforehand: its mean
    is unbiased and the exact estimator holds for it. Responses that are no evidence are not drawn anew.

    Args:
        responses_per_prompt: mean over the prompts of a step; times their number it is the step's total, met exactly.
        n_min: fewest responses per prompt and step.
        n_max: most responses per prompt and step.
        group_size: most responses kept for the update; ``n_max`` where all of them train.
        errors: what a subclass found wrong with its own arguments.

    Raises:
        ValueError: bounds that contradict each other, a mean that they cannot meet, or ``errors``; all in one message.
    """

    def __init__(
        self, *, responses_per_prompt: int, n_min: int, n_max: int, group_size: int, errors: Sequence[str] = ()
    ) -> None:
        super().__init__(
            responses_per_prompt=responses_per_prompt,
            n_max=n_max,
            group_size=group_size,
            errors=[*_bound_errors(responses_per_prompt, n_min, n_max), *errors],
        )
        self.n_min = n_min

    def divide(self, beliefs: Sequence[Belief], total: int) -> list[int]:
        """Return the number of responses of each prompt, a function of its arguments and of earlier steps.

        Args:
            beliefs: one per prompt of the step; at least one.
            total: what the numbers sum to, a multiple of the number of prompts.
        """
        raise NotImplementedError

    def plan(self, pools: Sequence[ResponsePool], stage: int = 0) -> None:
        """Divide ``responses_per_prompt`` times the number of pools by the pools' beliefs."""
        total = self.responses_per_prompt * len(pools)
        counts = self.divide([pool.belief for pool in pools], total) if pools else []
        assert sum(counts) == total, f"{type(self).__name__} planned {sum(counts)} responses, not {total}"
        self._planned = {pool.slot: count for pool, count in zip(pools, counts, strict=True)}

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Stop at the planned number, which is fixed before the pool's first response."""
        return PoolEnd(FixedRule(self._planned[pool.slot]))


def _bound_errors(responses_per_prompt: int, n_min: int, n_max: int) -> list[str]:
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
    return errors
