"""What samplers share that plan how many responses each prompt gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ada_lightning.core.protocols import PoolEnd, Sampler
from ada_lightning.core.records import Belief, ResponsePool
from ada_lightning.core.stopping.rule import FixedRule
from ada_lightning.methods.checked import Check, Checked, at_least


@dataclass(kw_only=True, eq=False)
class PlannedSampler(Checked, Sampler):
    """Draws what is planned, all of it at once. Responses that are no evidence are not drawn anew.

    Raises:
        ValueError: a value out of range, or a mean that the bounds cannot meet; all in one message.
    """

    responses_per_prompt: int = 8
    """Mean over the prompts of a step; times their number it is the step's total, met exactly."""
    n_max: int = 32
    """Most responses per prompt and step."""
    group_size: int = 32
    """Most responses kept for the update; ``n_max``: all (selection=all)."""
    _planned: dict[int, int] = field(init=False, repr=False, default_factory=dict)
    """Responses in all, by slot."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.samples_per_round = self.n_max

    def _checks(self) -> Iterator[Check]:
        yield (
            1 <= self.group_size <= max(self.n_max, 1),
            f"group_size must be in [1, n_max = {self.n_max}]; got {self.group_size}",
        )

    @property
    def most_per_prompt(self) -> int:
        """``n_max``."""
        return self.n_max

    def num_to_draw(self, pool: ResponsePool) -> int:
        """What is missing of the plan so far."""
        return max(0, self._planned[pool.slot] - pool.num_drawn)


@dataclass(kw_only=True, eq=False)
class OneShotSampler(PlannedSampler):
    """Settles before a step's first response how many each prompt gets, and draws them in a single pass.

    The plan looks at beliefs and at earlier steps only, so each pool is a sample of a size fixed beforehand: its mean
    is unbiased and the exact estimator holds for it.
    """

    n_min: int = 2
    """Fewest responses per prompt and step."""

    def _checks(self) -> Iterator[Check]:
        mean, low, high = self.responses_per_prompt, self.n_min, self.n_max
        yield from at_least(1, n_min=low)
        yield high >= low, f"n_max = {high} is less than n_min = {low}; raise n_max"
        yield (
            mean >= low,
            f"responses_per_prompt = {mean} is less than n_min = {low}: every prompt gets at least n_min; raise "
            "responses_per_prompt or lower n_min",
        )
        yield (
            mean <= high,
            f"responses_per_prompt = {mean} exceeds n_max = {high}: no prompt gets more than n_max; lower "
            "responses_per_prompt or raise n_max",
        )
        yield from super()._checks()

    def divide(self, beliefs: Sequence[Belief], total: int) -> list[int]:
        """Return how many of ``total`` responses each prompt gets, a function of its arguments and of earlier steps."""
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


@dataclass(kw_only=True, eq=False)
class StagedSampler(PlannedSampler):
    """Gives every prompt a pilot, and divides the rest of the step's total by what the pilots say.

    The number of responses depends on rewards and on other prompts, so the mean of a pool is biased, no rule of counts
    describes it, and ``advantage=exact`` does not go with it.
    """

    num_pilot: int = 4
    """Responses of each prompt's pilot, which stays in the pool and is part of ``responses_per_prompt``."""

    def _checks(self) -> Iterator[Check]:
        yield (
            self.num_pilot <= self.responses_per_prompt <= self.n_max,
            f"responses_per_prompt must lie between num_pilot = {self.num_pilot}, which it includes, and n_max = "
            f"{self.n_max}; got {self.responses_per_prompt}",
        )
        yield from super()._checks()

    def plan(self, pools: Sequence[ResponsePool], stage: int = 0) -> None:
        """Give every prompt its pilot; divide what follows once the pools so far are graded."""
        counts = self.divide(pools, stage) if stage else [self.num_pilot] * len(pools)
        self._planned = {pool.slot: count for pool, count in zip(pools, counts, strict=True)}

    def divide(self, pools: Sequence[ResponsePool], stage: int) -> list[int]:
        """Return the number of responses of each prompt up to the end of a stage, from 1, pilots included."""
        raise NotImplementedError
