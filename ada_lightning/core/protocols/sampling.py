"""Which prompts a step is made of, what is believed of them, and how many responses each gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ada_lightning.core.hint import Hint
from ada_lightning.core.protocols.part import Part, PolicyView
from ada_lightning.core.records import Belief, Outcome, Prompt, ResponseGroup, ResponsePool

if TYPE_CHECKING:  # torch stays out of reward workers
    from torch import Tensor

    from ada_lightning.core.stopping.rule import StoppingRule


Recall = Callable[[Sequence[Prompt]], Sequence[Belief]]
"""Asks what is remembered of prompts."""
Usefulness = Callable[[Sequence[float]], list[float]]
"""What a visit to a prompt is worth, for each pass rate in [0, 1]; only the order of values matters."""


@dataclass(frozen=True, slots=True)
class StepCosts:
    """What a step cost, for a curriculum that weighs it."""

    trained_tokens: Mapping[int, int]
    """Tokens of responses that trained, by slot; a group that is missing trained none."""
    rollout_s: float = 0.0
    """Seconds of the rollout; 0 where nobody measured them."""
    update_s: float = 0.0
    """Seconds of the updates; 0 where nobody measured them."""

    @classmethod
    def of(cls, groups: Sequence[ResponseGroup], rollout_s: float = 0.0, update_s: float = 0.0) -> Self:
        """Count the tokens of groups that have their advantages.

        Args:
            groups: of the step, those that train.
            rollout_s: seconds of the rollout.
            update_s: seconds of the updates.
        """
        tokens = {group.pool.slot: sum(kept.response.num_tokens for kept in group.trained) for group in groups}
        return cls(tokens, rollout_s, update_s)


class Curriculum(Part):
    """Which prompts a step trains on."""

    needs_history: bool = False
    """Whether it asks what is remembered of prompts; such a curriculum needs an estimator that remembers them."""

    @property
    def learns(self) -> bool:
        """Whether it learns from the steps itself, in addition to the pass rates that an estimator remembers."""
        return type(self).observe is not Curriculum.observe

    @property
    def weighs_costs(self) -> bool:
        """Whether it hears what a step cost (:meth:`note_costs`). An own loop does not count that for the others."""
        return type(self).note_costs is not Curriculum.note_costs

    def choose(
        self, prompts: Sequence[Prompt], num_prompts: int, *, step: int, seed: int, recall: Recall
    ) -> list[Prompt]:
        """Return the prompts of a rollout step, in no order that tells anything about them.

        Must be a function of its arguments and of what ``recall`` answers, so that a resumed run chooses the same. One
        that :attr:`learns` may use what it observed before the step, and may return fewer prompts, or none: whoever
        asks goes on with the next part.

        Args:
            prompts: all training prompts, in their stable order.
            num_prompts: prompts of a step (P). Where there are fewer than that, some come more than once.
            step: which part of the run's prompts, from 0: the rollout step, if no step took more than its P.
            seed: of every choice.
            recall: asks what is remembered.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method choose(prompts, num_prompts, ...)")

    def num_candidates(self, num_prompts: int) -> int | None:
        """Return how many prompts of a stream it chooses so many from; None: it needs a list of all of them.

        Then :meth:`choose` is given these candidates in place of all training prompts, other ones each time.
        """
        return None

    def figures(self, beliefs: Sequence[Belief]) -> Mapping[str, float]:
        """What to log of the prompts it has chosen, by name, from what was believed of them."""
        return {}

    def step_figures(self, beliefs: Sequence[Belief]) -> dict[str, float]:
        """Return the figures of a step for its log, keyed ``curriculum/name``; not to be overridden.

        ``curriculum/mean_belief`` next to ``rollout/reward_first_round`` shows whether the chosen prompts are as hard
        as was believed; ``curriculum/share_unseen`` how much of the step explores. :meth:`figures` is added.

        Args:
            beliefs: of the step's prompts, as they were remembered before the rollout.

        Example:
            >>> from ada_lightning.methods.curriculum import DifficultyBand
            >>> beliefs = [Belief(3, 1, is_seen=True), Belief(1, 3)]
            >>> DifficultyBand().step_figures(beliefs)
            {'curriculum/mean_belief': 0.5, 'curriculum/share_unseen': 0.5, 'curriculum/share_in_band': 0.5}
        """
        total = max(len(beliefs), 1)
        figures = {
            "mean_belief": sum(belief.mean for belief in beliefs) / total,
            "share_unseen": sum(not belief.is_seen for belief in beliefs) / total,
            **self.figures(beliefs),
        }
        return {f"curriculum/{name}": value for name, value in figures.items()}

    def check_prompts(self, prompts: Sequence[Prompt], num_prompts: int) -> None:
        """Compare what it needs with the training prompts and the P prompts of a step, before a model loads.

        Raises:
            ValueError: there is nothing to choose.
        """

    def note_costs(self, costs: StepCosts) -> None:
        """Hear what a finished step cost, just before :meth:`observe`; most need not know."""

    def observe(self, pools: Sequence[ResponsePool]) -> None:
        """Learn from the pools of a finished rollout step."""


Represent = Callable[[Sequence[Prompt]], "Tensor"]
"""The policy's representation of prompts, shape ``(P, H)``, float32; costs a forward pass."""


class PassRateEstimator(Part):
    """What pass rate to expect of a prompt before it is sampled, remembered across steps.

    One that can be asked about any prompt overrides :meth:`recall`; one that needs the policy, or the step as a whole,
    overrides :meth:`predict`. Its state is keyed by prompt id, and may hold tensors.
    """

    @property
    def remembers_prompts(self) -> bool:
        """Whether it can be asked about any prompt without a forward pass, as a curriculum needs it."""
        return type(self).recall is not PassRateEstimator.recall

    def check(self) -> None:
        """Raise ValueError for what can be found wrong before any model loads, such as an encoder that is missing."""

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Compare what is known beforehand with the encoded training prompts; called once, before a model loads.

        Raises:
            ValueError: it is about other prompts.
        """

    def connect(self, policy: PolicyView) -> None:
        """Remember whom to ask about the policy; called once, before the first rollout."""

    def predict(self, prompts: Sequence[Prompt], represent: Represent) -> Sequence[Belief]:
        """Return one belief per prompt; nothing is learned from being asked.

        Args:
            prompts: encoded prompts of a step.
            represent: asks the policy; only an estimator that needs it calls it.
        """
        return self.recall(prompts)

    def recall(self, prompts: Sequence[Prompt]) -> Sequence[Belief]:
        """Return what is remembered of each prompt, as a belief; nothing is learned from being asked."""
        raise NotImplementedError(f"{type(self).__name__} keeps nothing by prompt")

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Learn from the pools of a finished rollout step, whose prompts were the last ones predicted.

        The policy has been updated with them.
        """

    def history_counts(self) -> Mapping[str, tuple[float, float]]:
        """(positives, responses) by prompt id for a later run to start from; empty where none are kept by prompt."""
        return {}


class PromptEmbedding:
    """Where a prompt lies among others, so that what is seen of one says something about its neighbours."""

    rows_are_independent: bool = False
    """Whether a row is the same to the last bit whatever prompts it is made with, so that many can be made at once and
    a resumed run still finds the same."""
    needs_policy: bool = False
    """Whether it calls ``represent``, so that it cannot be asked where there is no policy."""

    def check(self) -> None:
        """Raise ValueError for what can be found wrong before any model loads."""

    def fit(self, prompts: Sequence[Prompt]) -> None:
        """Learn from all training prompts; called once, before any is embedded."""

    def __call__(self, prompts: Sequence[Prompt], represent: Represent) -> Tensor:
        """Return one row per prompt, always of the same size. Shape ``(P, H)``, float32, on the CPU.

        There is at least one prompt, and all are encoded.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method __call__(prompts, represent)")


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


@dataclass(frozen=True, slots=True)
class RefillProgress:
    """How far a step is that is filled up with groups that have a signal."""

    num_wanted: int
    """Groups with a signal that the step is to have."""
    num_signal: int
    """Complete groups that have one."""
    num_open: int
    """Groups that are not complete."""
    num_drawn: int
    """Prompts drawn for the step, open ones and those too long for the engine included."""


class Refill(Part):
    """Whether groups without a signal are replaced within their step, and by how many prompts at once."""

    is_on: bool = False
    """False: every prompt of a step counts, and nothing below is asked."""

    def first_wave(self, num_wanted: int) -> int:
        """Return with how many prompts a step begins that is to have ``num_wanted`` groups with a signal."""
        return num_wanted

    def next_wave(self, progress: RefillProgress) -> int:
        """Return how many prompts join now; 0 none.

        It is called repeatedly. The number of prompts that have joined in the end must be a function of the groups'
        outcomes in the order of the prompts, so that latency decides nothing. So an answer may use open groups only as
        far as none of their outcomes could change it. It must come to an end on any data.
        """
        return 0

    def has_signal(self, pool: ResponsePool) -> bool:
        """Whether a complete pool is one of those wanted; a selection may turn it down still (:meth:`takes`)."""
        return True

    def is_correct(self, pool: ResponsePool) -> bool:
        """Whether a complete pool without a signal is all right, instead of all wrong."""
        return pool.num_sampled > 0 and pool.num_negative == 0


class FollowUp(Part):
    """Whether a prompt is drawn again within its step, with a hint, once its own responses are there."""

    is_on: bool = False
    """False: nothing is drawn again, and nothing below is asked."""
    num_levels: int = 0
    """Most levels of a solution."""
    max_share: float = 0.0
    """Most responses under a hint, as a share of all responses of a step."""
    writes: bool = False
    """Whether the policy writes the hints: what :meth:`follow` returns asks for one, and :meth:`written` gives it."""

    def frozen(self) -> Self:
        """Return a copy for one step, which what is learned meanwhile does not change."""
        return copy(self)

    def connect(self, encode: Callable[[Prompt], Sequence[int]], *, has_turns: bool) -> None:
        """Remember how prompts become tokens, and whether by a chat template; called once, where it :attr:`writes`."""

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Look at the training prompts; called once, before a model loads.

        Raises:
            ValueError: they lack what it needs.
        """

    def check_room(self, prompts: Sequence[Prompt], room: int) -> None:
        """Compare the training prompts with the room; called once, before a model loads.

        Args:
            prompts: with their solutions.
            room: longest prompt that the engine takes, the hint included, in tokens.

        Raises:
            ValueError: none could ever have a hint.
        """

    def follow(self, pool: ResponsePool, room: int | None = None) -> Prompt | None:
        """Return a complete pool's prompt with its hint (:func:`~ada_lightning.core.following.hinted`), or None.

        Must be a function of the pool, of its belief, and of what was learned before the step.

        Args:
            pool: of responses without a hint.
            room: longest prompt that the engine takes, the hint included, in tokens; None: any.
        """
        return None

    def written(
        self, prompt: Prompt, hint: Hint, outcome: Outcome, *, is_right: bool | None, room: int | None
    ) -> Prompt:
        """Return a prompt with the hint that was written for it, or with one that says why it is refused.

        Must be a function of its arguments.

        Args:
            prompt: without a hint.
            hint: that :meth:`follow` asked for.
            outcome: what the policy wrote.
            is_right: whether the reward takes that for a right response by itself; None: it could not grade it.
            room: as in :meth:`follow`.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method written(prompt, hint, outcome, ...)")

    def learn(self, pools: Sequence[ResponsePool]) -> None:
        """Learn from the pools of a finished rollout step, those under a hint and those without, in their order."""

    def figures(self, groups: Sequence[ResponseGroup]) -> Mapping[str, float]:
        """What to log of a finished rollout step that has not been learned from, keyed ``hints/name``."""
        return {}
