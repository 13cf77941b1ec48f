"""How many responses each prompt gets."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ada_lightning.core.protocols.part import Part
from ada_lightning.core.records import Prompt, ResponsePool

if TYPE_CHECKING:  # torch stays out of reward workers
    from ada_lightning.core.protocols.policy_view import PolicyView
    from ada_lightning.core.stopping.rule import StoppingRule


@dataclass(frozen=True, slots=True)
class PoolEnd:
    """What a sampler says of a pool."""

    rule: StoppingRule | None = None
    """By which its prompt's sampling ends, if counts alone decide; None where more than counts does."""
    is_resolved: bool | None = None
    """Whether it holds what the sampler looks for, instead of having run out of budget. None: by the rule."""
    inverse_probability: float = 1.0
    """1 / (probability that its prompt is sampled), known before its first response."""
    rewards: Sequence[float] | None = None
    """Of each response in launch order, where they are known only when a pool is complete, as those of a majority vote.
    They replace the graders'."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What chance says of one response before it is drawn: whether it goes on if it is long."""

    num_tokens: int
    """A longer one than this is cut here, or weighs more."""
    survival: float
    """Probability that it is not cut, above 0."""
    goes_on: bool
    """Whether it is not."""


class Sampler(Part):
    """Who gets more samples, who stops."""

    group_size: int
    """Responses a group should keep, at most."""
    samples_per_round: int
    """Most responses that :meth:`num_to_draw` asks for at once."""
    budget_per_step: int = 0
    """Most responses of a whole rollout step; 0 sets no limit."""
    num_stages: int = 1
    """Times that the step is divided. Above 1, all prompts meet between stages: a stage ends where every prompt has
    what :meth:`num_to_draw` asked for, and waits for its slowest response, so decide prompt by prompt where you can."""

    @property
    def most_per_prompt(self) -> int:
        """Most responses of a prompt in a step that are evidence; by default those of a single draw."""
        return self.samples_per_round

    @property
    def plans_nothing(self) -> bool:
        """Whether what a prompt gets depends on that prompt alone, so that others may join a step under way."""
        return self.num_stages == 1 and type(self).plan is Sampler.plan

    def frozen(self) -> Self:
        """Return a copy for one step, which neither other steps' plans nor what is learned meanwhile change.

        It is shallow: :meth:`learn` replaces what it remembers instead of changing it in place. What :meth:`plan` notes
        stays with the copy, so :meth:`learn` cannot read it.
        """
        return copy(self)

    def connect(self, policy: PolicyView) -> None:
        """Remember whom to ask about the policy; called once, before the first rollout."""

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Look at the training prompts; called once, before a model loads.

        Raises:
            ValueError: they lack what it needs.
        """

    def plan(self, pools: Sequence[ResponsePool], stage: int = 0) -> None:
        """Divide what comes next among prompts.

        Called before the first response, with the step's empty pools, and before each further stage, with the pools as
        they are then, in the order of their slots. Must be a function of the pools (of their beliefs) and of what was
        learned before the step, so that a repeated step has the same plan.
        """

    def num_to_draw(self, pool: ResponsePool) -> int:
        """How many more responses to draw for this prompt now; 0 means its pool is complete, or wants none this stage.

        Asked only when every response drawn so far is committed, in launch order. Must be a function of the pool, the
        plan, and what was learned before the step, so that scheduling cannot change the outcome.
        """
        raise NotImplementedError

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Say how a prompt's sampling ends: of a complete pool, and of an empty one what can be said of it."""
        return PoolEnd()

    def cut(self, pool: ResponsePool, sample_index: int) -> Cut | None:
        """Say whether a response is cut where it gets long; None: whatever its length, it is drawn to its end.

        Must be a function of the prompt, its slot and step, what was believed of it, and the sample's index. What is
        cut is drawn and neither kept nor evidence; what is not, and got longer, weighs 1 / survival.
        """
        return None

    def chance_to_go_on(self, pool: ResponsePool, num_positive: int, num_negative: int, num_open: int) -> float:
        """Probability that more is wanted once everything launched is committed; 0 at the cap, or where not known.

        Blocks are drawn ahead by it; for those of a sampler that says 0 the engine waits.

        Args:
            pool: whose belief counts. Its own responses are among those that follow.
            num_positive: launched responses known to be positive.
            num_negative: launched responses known to be negative.
            num_open: launched responses whose verdict is not known.
        """
        return 0.0

    def expected_need(self, pool: ResponsePool) -> float:
        """Responses that the prompt is expected to take from here on: the engine serves the greatest need first."""
        return 0.0

    def learn(self, pools: Sequence[ResponsePool]) -> None:
        """Learn from the pools of a finished rollout step."""
