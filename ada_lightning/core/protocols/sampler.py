"""How many responses each prompt gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ada_lightning.core.records import ResponsePool

if TYPE_CHECKING:  # torch stays out of reward workers
    from ada_lightning.core.stopping.rule import StoppingRule


@runtime_checkable
class Sampler(Protocol):
    """Who gets more samples, who stops."""

    group_size: int
    """Responses a group should keep, at most."""
    samples_per_round: int
    """Most responses that :meth:`num_to_draw` asks for at once."""
    budget_per_step: int
    """Most responses of a whole rollout step; 0 sets no limit."""

    def plan(self, pools: Sequence[ResponsePool]) -> None:
        """Divide the step among prompts before the first response: called once with the step's empty pools.

        Must be a function of the pools (of their beliefs), so that a repeated step has the same plan.
        """
        ...

    def num_to_draw(self, pool: ResponsePool) -> int:
        """How many more responses to draw for this prompt now; 0 means its pool is complete.

        Asked only when every response drawn so far is committed, in launch order. Must be a function of the pool, the
        plan, and what was observed before the step, so that scheduling cannot change the outcome.
        """
        ...

    def stopping_rule(self, pool: ResponsePool) -> StoppingRule | None:
        """Return the rule by which this prompt's sampling ends, if its counts alone decide; otherwise None."""
        ...

    def observe(self, pools: Sequence[ResponsePool]) -> None:
        """Learn from the pools of a finished rollout step."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What outlives a step, as primitives."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        ...


@runtime_checkable
class IndependentSampler(Sampler, Protocol):
    """A sampler that can say that it divides nothing, so that prompts may join a step that is under way."""

    @property
    def plans_nothing(self) -> bool:
        """Whether :meth:`Sampler.plan` does nothing: what a prompt gets depends on that prompt alone."""
        ...


@runtime_checkable
class ScreeningSampler(Sampler, Protocol):
    """A sampler that leaves it to chance whether a prompt is sampled at all."""

    def inverse_probability(self, pool: ResponsePool) -> float:
        """Return 1 / (probability that this prompt is sampled), known before its first response."""
        ...


@runtime_checkable
class JudgingSampler(Sampler, Protocol):
    """A sampler that looks at more than counts, so that no stopping rule can say whether a pool is resolved."""

    def is_resolved(self, pool: ResponsePool) -> bool:
        """Whether a pool holds what the sampler looks for, instead of having run out of budget."""
        ...


@runtime_checkable
class StagedSampler(Sampler, Protocol):
    """A sampler that divides the step anew between stages, once every prompt's responses of a stage are graded.

    A stage ends where all prompts have finished what :meth:`Sampler.num_to_draw` asked for; then :meth:`begin_stage`
    sees all pools, and every prompt is asked again. A 0 means that a prompt wants nothing in this stage; the pools are
    complete after a stage in which no prompt wants anything. It waits for the slowest response of each stage, so a
    sampler that can decide prompt by prompt should not be one.
    """

    def begin_stage(self, pools: Sequence[ResponsePool]) -> None:
        """Divide what comes next; called between stages with all pools of the step, in the order of their slots.

        Must be a function of the pools and of what was observed before the step.
        """
        ...


@runtime_checkable
class LabellingSampler(Sampler, Protocol):
    """A sampler whose rewards are known only when a pool is complete, as those of a majority vote without labels."""

    def labelled(self, pool: ResponsePool) -> Sequence[float]:
        """Return the reward of each response of a complete pool, in launch order; they replace the graders' ones."""
        ...


@runtime_checkable
class ForesightedSampler(Protocol):
    """A sampler that can tell how probably it will want more, and how much: what a schedule needs."""

    def chance_to_go_on(self, pool: ResponsePool, num_positive: int, num_negative: int, num_open: int) -> float:
        """Probability that responses are still wanted once everything launched is committed; 0 at the cap.

        Args:
            pool: whose belief counts. Its own responses are among those that follow.
            num_positive: launched responses known to be positive.
            num_negative: launched responses known to be negative.
            num_open: launched responses whose verdict is not known.
        """
        ...

    def expected_need(self, pool: ResponsePool) -> float:
        """Responses that the prompt is expected to take from here on."""
        ...
