"""The records that travel through one training step, from the prompt to the batch.

Shape legend, used as suffixes of tensor names everywhere (``rewards_B``, ``logprobs_K``):

====== =========================================================================
letter axis
====== =========================================================================
P      prompts of a rollout step
N      responses in the pool of one prompt (ragged)
G      responses kept for one prompt, at most ``group_size``
B      responses in a microbatch
T      tokens of a microbatch, its documents end to end: prompts, each with one or more of its responses
K      response tokens of a microbatch that the model drew, flattened
H      hidden size
V      vocabulary
====== =========================================================================

The records here are plain Python, so that reward workers can use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from ada_lightning.core.checks import refuse, unmet
from ada_lightning.core.episode import Episode, Turn
from ada_lightning.core.hint import Hint, Solution

if TYPE_CHECKING:
    from ada_lightning.core.stopping.rule import StoppingRule


@dataclass(frozen=True, slots=True)
class Prompt:
    """One task for the model, with what its verifier needs."""

    prompt_id: str
    """Stable across epochs, runs and machines: a hash of source, content and reference. Histories are keyed by it."""
    messages: tuple[Mapping[str, str], ...]
    """Chat turns, each with ``role`` and ``content``, without the assistant's answer. A turn of the assistant at the
    end is the beginning of one, which responses continue."""
    reference: Mapping[str, Any] = field(default_factory=dict)
    """What the reward function needs to grade a response: JSON-like, picklable, never shown to the model."""
    task: str = ""
    """Name of the task or source, for metrics per source and for rewards that dispatch on it."""
    prompt_ids: tuple[int, ...] = ()
    """Token ids after the chat template; empty until :class:`~ada_lightning.data.encoder.PromptEncoder` ran."""
    template_arguments: Mapping[str, Any] = field(default_factory=dict)
    """What the chat template is given for this prompt alone, such as ``{"enable_thinking": False}``."""
    solution: Solution | None = None
    """Its worked solution, where there is one and the run gives hints."""
    hint: Hint | None = None
    """What its responses are given of the solution; None in all prompts but those that are drawn again with one."""


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """How tokens are drawn. Training and evaluation have one each."""

    max_new_tokens: int
    """Longest response, in tokens; a response cut here has ``is_truncated`` set."""
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    """-1 switches it off."""

    def __post_init__(self) -> None:
        """Reject settings that no engine can follow."""
        refuse(
            *unmet(
                (self.max_new_tokens >= 1, "max_new_tokens must be at least 1", self.max_new_tokens),
                (self.temperature >= 0, "temperature must be 0 (greedy) or positive", self.temperature),
                (0 < self.top_p <= 1, "top_p must be in (0, 1]", self.top_p),
                (self.top_k == -1 or self.top_k >= 1, "top_k must be -1 (off) or at least 1", self.top_k),
            )
        )


@dataclass(frozen=True, slots=True)
class Request:
    """One response that a step asks for, or the next turn of an episode."""

    slot: int
    """Position of the prompt in the step."""
    prompt: Prompt
    sample_index: int
    """Position in the launch order of its prompt, from 0."""
    seed: int | None
    is_ahead: bool
    """Drawn before it is known to be wanted: an engine that is full should let others go first."""
    attempt: int = 0
    """Times that something of this prompt was dropped before: the same sample asked for again is another request."""
    step: int = 0
    """Number of the step that asks."""
    max_new_tokens: int | None = None
    """Where to cut it and ask no grader (:meth:`~ada_lightning.core.protocols.Sampler.cut`); None: at the run's own
    limit. Nothing but tokens is lost on one that was not cut: it is left out all the same."""
    continued_ids: tuple[int, ...] = ()
    """Of a later turn of an episode: all that followed the prompt so far."""

    @property
    def ids(self) -> tuple[int, ...]:
        """Token ids that the engine continues."""
        return (*self.prompt.prompt_ids, *self.continued_ids)


@dataclass(frozen=True, slots=True)
class Completion:
    """What a reward sees of a response."""

    text: str
    """Untrusted: never to be run as code."""
    finish_reason: Literal["stop", "length"] = "stop"
    """``length`` where the length limit cut it."""
    num_tokens: int | None = None
    """Tokens that the model drew, the end-of-sequence token included; None where whoever asks has not counted them."""
    turns: tuple[Turn, ...] = ()
    """Of an episode with an environment, whose last turn ``text`` is; empty for a single response."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reward says of a response, and what became of grading it. A reward may return it, or a bare number."""

    reward: float | None
    """Of a reward function a finite number. 0 where grading failed by the response's own making; None where it failed
    otherwise: no evidence either way."""
    answer: str | None = None
    """The answer found in the response, normalised so that equal answers are equal texts, for majority votes. None
    where there is none."""
    components: Mapping[str, float] = field(default_factory=dict)
    """Parts the reward is made of, by name, before their weights; each is logged."""
    failure: str = ""
    """Why grading failed, see :mod:`ada_lightning.rewards.failures`; empty when graded. A reward that cannot grade
    raises instead."""
    detail: str = field(default="", compare=False, repr=False)
    """What a person wants to read of a failure, such as the end of a traceback."""
    is_cached: bool = field(default=False, compare=False, repr=False)
    """Whether it is the verdict on an equal response before."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request: an engine gives its tokens, the tokenizer their text, a grader the verdict."""

    text: str
    """Of an episode, that of its last turn. Empty until the tokens are decoded."""
    response_ids: tuple[int, ...]
    """Sampled token ids, the end-of-sequence token included where the model produced it."""
    sampling_logprobs: tuple[float, ...]
    """Log-probability, in nats, of each sampled token under the distribution it was drawn from."""
    is_truncated: bool
    """Cut by the length limit instead of ended by the model; of an episode, ended by a limit."""
    grade: Verdict = field(default_factory=lambda: Verdict(reward=0.0))
    """0 where no grader is asked (:meth:`~ada_lightning.core.step_records.StepSettings.asks_grader`), and until one
    has answered."""
    episode: Episode | None = None
    """As in :class:`Response`."""
    request_id: str = ""
    """What the engine was asked by."""

    @property
    def num_tokens(self) -> int:
        """Tokens that the model drew."""
        return len(self.response_ids) if self.episode is None else self.episode.num_sampled

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Of an episode; none of a single response."""
        return () if self.episode is None else self.episode.turns

    @property
    def completion(self) -> Completion:
        """What a reward sees of it."""
        return Completion(self.text, "length" if self.is_truncated else "stop", self.num_tokens, self.turns)

    def completion_of(self, prompt: Prompt) -> Completion:
        """What a reward sees of it: behind a hint the whole turn, whose tokens are counted without the hint's."""
        said = self.completion
        return said if prompt.hint is None else replace(said, text=prompt.hint.text + said.text)


@dataclass(frozen=True, slots=True)
class Response:
    """One sampled and graded response."""

    prompt_id: str
    sample_index: int
    """Position in the launch order of its prompt, from 0."""
    round_index: int
    """Which block of ``samples_per_round`` it was drawn in, from 0."""
    response_ids: tuple[int, ...]
    sampling_logprobs: tuple[float, ...]
    text: str
    is_truncated: bool
    reward: float
    is_positive: bool
    """``reward`` above the positive threshold."""
    policy_version: int
    """Number of policy updates behind the weights that sampled it."""
    is_masked: bool = False
    """Counts as evidence but never trains (``truncated: mask``)."""
    answer: str | None = None
    """What the reward took as the answer; None where it found or tells none."""
    components: Mapping[str, float] = field(default_factory=dict)
    """Parts of the reward by name; empty where it has none."""
    inverse_probability: float = 1.0
    """1 / (probability that it was drawn to its end), where a sampler left that to chance."""
    episode: Episode | None = None
    """The turns that it is made of; None for a single one. ``text`` is then the last turn's, ``response_ids`` all that
    follows the prompt, and ``sampling_logprobs`` is 0 at tokens that the model did not draw."""

    @property
    def num_tokens(self) -> int:
        """Tokens that the model drew: those that were generated, and those that train."""
        return len(self.response_ids) if self.episode is None else self.episode.num_sampled

    @property
    def sampled_logprobs(self) -> tuple[float, ...]:
        """``sampling_logprobs`` of the tokens that the model drew."""
        return self.sampling_logprobs if self.episode is None else self.episode.sampled(self.sampling_logprobs)

    @property
    def sampled_ids(self) -> tuple[int, ...]:
        """``response_ids`` of the tokens that the model drew."""
        return self.response_ids if self.episode is None else self.episode.sampled(self.response_ids)


@dataclass(frozen=True, slots=True)
class Belief:
    """What is believed about a prompt's pass rate before this step's first response: Beta(alpha, beta)."""

    alpha: float = 1.0
    """Positives seen or imagined; above 0."""
    beta: float = 1.0
    """Negatives seen or imagined; above 0."""
    num_seen: float = field(default=0.0, compare=False)
    """Graded responses of this very prompt behind it, as far as they are remembered; 0 where only others speak for it.
    Not whole where they have faded. What is known of a prompt and what is only expected differ by it."""
    num_seen_positive: float = field(default=0.0, compare=False)
    """Positives among them."""
    is_seen: bool = field(default=False, compare=False)
    """Whether the prompt has counts of its own: from this run, or from a file of pass rates measured before it."""

    @property
    def mean(self) -> float:
        """Expected pass rate, in (0, 1)."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def seen_rate(self) -> float:
        """Share of positives among the responses seen, 0 and 1 included; the mean where none was."""
        return self.num_seen_positive / self.num_seen if self.num_seen else self.mean


@dataclass(slots=True)
class ResponsePool:
    """Every response drawn for one prompt in this step, committed in launch order.

    A sampler decides on this record and nothing else of the step, so a decision can never depend on
    which response happened to finish first.
    """

    prompt: Prompt
    slot: int
    """Position of the prompt in the step's list. A prompt drawn twice has two slots, two pools, two sets of seeds."""
    step: int = 0
    """Rollout step."""
    belief: Belief = field(default_factory=Belief)
    """From the prompt's history, fixed before the step."""
    responses: list[Response] = field(default_factory=list)
    num_drawn: int = 0
    """Committed draws, those excluded from the counts included. Budgets and rounds count these."""
    num_positive: int = 0
    num_failed: int = 0
    """Draws whose grader failed through no doing of theirs, excluded from ``responses``."""
    num_truncated_excluded: int = 0
    """Draws cut by the length limit and excluded from ``responses`` (``truncated: exclude``)."""
    num_cut: int = 0
    """Draws that a sampler cut by chance, excluded from ``responses``."""
    short: list[Response] = field(default_factory=list)
    """Responses that would have been cut, had they been longer. They train as others do, and do not speak for the pass
    rate, since that they are here says that they are short: excluded from ``responses``, too."""
    first_round_rewards: list[float] = field(default_factory=list)
    """Rewards of the first round only: the one sample of the pass rate that no stopping rule has biased."""
    rule: StoppingRule | None = None
    """The rule of counts that ended the pool, set when it is complete. None where more than the counts decided."""
    inverse_probability: float = 1.0
    """1 / (probability that its prompt was sampled at all), where a sampler left that to chance."""
    is_resolved_by_sampler: bool | None = None
    """What a sampler that looks at more than counts says of the complete pool; None leaves it to ``rule``."""

    @property
    def hint(self) -> int:
        """Level of the hint that its responses were given; 0 without one. Only without do they show the pass rate."""
        return 0 if self.prompt.hint is None else self.prompt.hint.level

    @property
    def num_sampled(self) -> int:
        """Responses that count as evidence about the pass rate."""
        return len(self.responses)

    @property
    def num_negative(self) -> int:
        """Responses in the pool that are not positive."""
        return len(self.responses) - self.num_positive

    @property
    def is_resolved(self) -> bool:
        """Whether sampling found what it looks for, instead of running out of budget."""
        if self.is_resolved_by_sampler is not None:
            return self.is_resolved_by_sampler
        return self.rule is None or self.rule.is_resolved(self.num_positive, self.num_negative)

    @property
    def has_signal(self) -> bool:
        """Whether rewards differ inside the pool, so that some advantage is not zero."""
        return any(response.reward != self.responses[0].reward for response in self.responses)

    def trainable(self) -> list[Response]:
        """Return the responses that may be kept, in launch order."""
        responses = self.responses  # in launch order
        if self.short:
            responses = sorted([*self.responses, *self.short], key=attrgetter("sample_index"))
        return [response for response in responses if not response.is_masked]

    def add(self, response: Response) -> None:
        """Commit one graded response that is evidence; the caller keeps the launch order."""
        self.num_drawn += 1
        self.num_positive += response.is_positive
        self.responses.append(response)
        if response.round_index == 0:
            self.first_round_rewards.append(response.reward)

    def add_short(self, response: Response) -> None:
        """Commit one that would have been cut, had it been longer."""
        self.num_drawn += 1
        self.short.append(response)


@dataclass(frozen=True, slots=True)
class KeptResponse:
    """A response that trains, with the weight that undoes its selection."""

    response: Response
    selection_weight: float
    """Pool responses of its class per kept response of its class (``N_s / m_s``). Classes are positive and negative, or
    the strata of a selection by reward strata."""
    inverse_probability: float = 1.0
    """1 / (probability that a random selection kept it), where it was kept by chance, and 1 otherwise."""
    advantage: float | None = None
    """What it weighs in the update, over the probability that it was sampled and kept. Assigned once for the whole
    rollout; None before."""


@dataclass(frozen=True, slots=True)
class ResponseGroup:
    """One prompt's outcome of a rollout step: its pool, and what is kept of it."""

    pool: ResponsePool
    kept: tuple[KeptResponse, ...]
    is_surplus: bool = False
    """With a signal, and not needed in a step that was filled up: it keeps nothing and does not train."""

    @property
    def has_signal(self) -> bool:
        """Whether responses are told apart: some are kept, and rewards or advantages differ.

        A response that is kept alone is told apart from what was expected of it, where its advantage is not 0. Where
        every advantage is 0 in spite of differences, there is no signal.

        A surplus group has one, although nothing is kept of it: how many prompts of a step have a signal does not
        depend on how many of them were needed.
        """
        if self.is_surplus:
            return True
        advantages = {kept.advantage for kept in self.kept}
        if None in advantages:
            return self.pool.has_signal
        return any(advantages) and (self.pool.has_signal or len(self.kept) == 1 or len(advantages) > 1)

    @property
    def trained(self) -> tuple[KeptResponse, ...]:
        """Kept responses that have an advantage; before advantages are assigned, all of them where rewards differ."""
        if None in [kept.advantage for kept in self.kept]:
            return self.kept if self.has_signal else ()
        return tuple([kept for kept in self.kept if kept.advantage])

    def without_chance(self, values: Sequence[float]) -> list[float]:
        """Undo what was left to chance: what had probability q counts 1/q times (Horvitz and Thompson 1952).

        Args:
            values: one per kept response, as an advantage assigns them. Prompt, response and what kept it know the
                inverse of their probabilities.

        Raises:
            ValueError: there are more values than kept responses, or fewer.
        """
        return [
            value * kept.inverse_probability * kept.response.inverse_probability * self.pool.inverse_probability
            for kept, value in zip(self.kept, values, strict=True)
        ]

    def with_advantages(self, advantages: Sequence[float]) -> ResponseGroup:
        """Write down what each kept response weighs, in the order of ``kept``."""
        weighed = [
            KeptResponse(kept.response, kept.selection_weight, kept.inverse_probability, advantage)
            for kept, advantage in zip(self.kept, advantages, strict=True)
        ]
        return ResponseGroup(self.pool, tuple(weighed), self.is_surplus)
