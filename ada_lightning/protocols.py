"""The contracts between the rooms. Every implementation is chosen by ``_target_`` in ``conf/``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from ada_lightning.types import (
    Belief,
    Completion,
    Generation,
    KeptResponse,
    Prompt,
    PromptHistory,
    RefillProgress,
    ResponseGroup,
    ResponsePool,
    SamplingSettings,
    Verdict,
)

if TYPE_CHECKING:  # torch stays out of reward workers
    from torch import Tensor

    from ada_lightning.batch import Microbatch
    from ada_lightning.stopping.rule import StoppingRule


@runtime_checkable
class PromptSource(Protocol):
    """Where prompts come from, with disjoint train and held-out lists fixed by a seed.

    A source may have more: ``check()`` raises ValueError for what can be found wrong without a model; ``reports`` and
    ``notes`` say what became of its rows (:mod:`ada_lightning.data.report`); ``epoch(prompts)`` repeats usable training
    prompts as often as an epoch is to show them.
    """

    def train_prompts(self) -> Sequence[Prompt]:
        """Prompts to learn from, in a stable order."""
        ...

    def heldout_prompts(self) -> Sequence[Prompt]:
        """Prompts to evaluate on; none of them is a training prompt."""
        ...


@runtime_checkable
class Objective(Protocol):
    """A function f of the pass rate p that is to be maximised. Hashable: tables are cached by objective."""

    def __hash__(self) -> int:
        """Equal objectives have equal hashes."""
        ...

    def value(self, pass_rate_B: Tensor) -> Tensor:
        """f(p), elementwise."""
        ...

    def weight(self, pass_rate_B: Tensor) -> Tensor:
        """f'(p), elementwise."""
        ...

    def terms(self, n_max: int) -> Mapping[tuple[int, int], float]:
        """``p q f'(p)`` as coefficients of ``p^i q^j``, by (i, j), all of them positive, up to degree ``n_max``.

        Each (i, j) has ``min(i, j) = 1``: with both classes in every term, a pool without signal gets no weight.
        """
        ...

    def formula(self) -> str:
        """Return f as a person writes it, for messages."""
        ...


@runtime_checkable
class Reward(Protocol):
    """A picklable grader that runs in worker processes and never imports torch.

    It may also define

    - ``check() -> None``: raise ValueError for what can be found wrong without a response; called before any model
      loads and in every worker,
    - ``check_prompt(prompt) -> None``: raise ValueError for a prompt it can never grade, such as one whose reference
      answer it cannot parse; called in a worker for every prompt before any model loads,
    - ``answers_without_reference``: True where its verdicts tell answers in which the reference has no part, False
      where they tell answers that depend on it; samplers that make labels of answers need the former,
    - ``cacheable = False``: where equal responses to a prompt need not get equal rewards,
    - ``cache_key(completion) -> str | None``: the part of a response that alone decides its reward, where that is less
      than text and finish reason; called in the trainer's process, so it must be quick whatever the text.
    """

    def __call__(self, prompt: Prompt, completion: Completion) -> float | Verdict:
        """Grade one response. Raise rather than guess: the pool turns failures into a :class:`Grade`.

        Returns:
            The reward, a finite number; or a :class:`~ada_lightning.types.Verdict`, which also tells the answer found
            (majority votes need it) and the reward's components (each is logged).
        """
        ...


@runtime_checkable
class PassRateEstimator(Protocol):
    """What pass rate to expect of a prompt before it is sampled, remembered across steps."""

    def check_prompts(self, prompts: Sequence[Prompt]) -> None:
        """Compare what is known beforehand with the encoded training prompts; called once, before a model loads.

        Raises:
            ValueError: it is about other prompts.
        """
        ...

    def predict(self, prompts: Sequence[Prompt], represent: Callable[[Sequence[Prompt]], Tensor]) -> Sequence[Belief]:
        """Return one belief per prompt; nothing is learned from being asked.

        Args:
            prompts: encoded prompts of a step.
            represent: the policy's representation of prompts, shape ``(P, H)``, float32; costs a forward pass, so only
                an estimator that needs it calls it.
        """
        ...

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Learn from the pools of a finished rollout step, whose prompts were the last ones predicted."""
        ...

    def history_counts(self) -> Mapping[str, tuple[float, float]]:
        """(positives, responses) by prompt id for a later run to start from; empty where none are kept by prompt."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What outlives a step, as primitives and tensors, keyed by prompt id."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        ...


@runtime_checkable
class PromptEmbedding(Protocol):
    """Where a prompt lies among others, so that what is seen of one says something about its neighbours.

    It may also define ``check() -> None``: raise ValueError for what can be found wrong before any model loads.
    """

    def __call__(self, prompts: Sequence[Prompt], represent: Callable[[Sequence[Prompt]], Tensor]) -> Tensor:
        """Return one row per prompt, always of the same size. Shape ``(P, H)``, float32, on the CPU.

        Args:
            prompts: encoded prompts, at least one.
            represent: as in :meth:`PassRateEstimator.predict`.
        """
        ...


@runtime_checkable
class RememberingEstimator(PassRateEstimator, Protocol):
    """An estimator that keeps counts by prompt, so that it can be asked about any prompt without a forward pass."""

    def recall(self, prompts: Sequence[Prompt]) -> Sequence[PromptHistory]:
        """Return what is remembered of each prompt; nothing is learned from being asked."""
        ...


@runtime_checkable
class Curriculum(Protocol):
    """Which prompts a step trains on."""

    needs_history: bool
    """Whether it asks what is remembered of prompts; such a curriculum needs a :class:`RememberingEstimator`."""

    def choose(
        self,
        prompts: Sequence[Prompt],
        num_prompts: int,
        *,
        step: int,
        seed: int,
        recall: Callable[[Sequence[Prompt]], Sequence[PromptHistory]],
    ) -> list[Prompt]:
        """Return the prompts of a rollout step, in no order that tells anything about them.

        Must be a function of its arguments and of what ``recall`` answers, so that a resumed run chooses the same.
        A :class:`LearningCurriculum` may use what it observed before the step, and may return fewer prompts, or none:
        whoever asks goes on with the next stretch.

        Args:
            prompts: all training prompts, in their stable order.
            num_prompts: prompts of a step (P). Where there are fewer than that, some come more than once.
            step: which stretch of the run's prompts, from 0: the rollout step, where no step took more than its P.
            seed: of every choice.
            recall: what is remembered of prompts, one history each.
        """
        ...

    def figures(self, histories: Sequence[PromptHistory]) -> Mapping[str, float]:
        """What to log of the prompts it has chosen, by name."""
        ...

    def bend(self) -> str:
        """Return one line on what it does to the run's objective; empty where every prompt counts the same."""
        ...


@runtime_checkable
class LearningCurriculum(Curriculum, Protocol):
    """A curriculum that learns from the steps itself, beside what an estimator remembers of pass rates."""

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
class Refill(Protocol):
    """Whether groups without a signal are replaced within their step, and by how many prompts at once."""

    is_on: bool
    """False: every prompt of a step counts, and nothing below is asked."""
    keep_surplus: bool
    """Whether groups with a signal that were not needed train in the next step."""

    def first_wave(self, num_wanted: int) -> int:
        """Return with how many prompts a step begins that is to have ``num_wanted`` groups with a signal."""
        ...

    def next_wave(self, progress: RefillProgress) -> int:
        """Return how many prompts join now; 0 none.

        Asked again and again. The number of prompts that have joined in the end must be a function of the groups'
        outcomes in the order of the prompts, so that latency decides nothing: an answer may use open groups only as
        far as no outcome of theirs could change it. Must have an end on any data.
        """
        ...

    def has_signal(self, pool: ResponsePool) -> bool:
        """Whether a complete pool is one of those wanted; a :class:`ScreeningSelection` may turn it down still."""
        ...

    def is_correct(self, pool: ResponsePool) -> bool:
        """Whether a complete pool without a signal is all right, instead of all wrong."""
        ...

    def bend(self) -> str:
        """Return one line on what it does to the run's objective; empty where it does nothing."""
        ...


@runtime_checkable
class Usefulness(Protocol):
    """What a visit to a prompt of a known pass rate is worth."""

    def __call__(self, pass_rates: Sequence[float]) -> list[float]:
        """Return one value per pass rate in [0, 1]; only their order matters."""
        ...


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


class PolicyView(Protocol):
    """What can be read of the policy while a rollout is drawn: the weights that draw it."""

    model: Any
    """The causal language model."""
    temperature: float
    """Divides the logits, as the engine's."""
    attention: AttentionBackend
    clock: Any
    """A :class:`~ada_lightning.metrics.phase_clock.PhaseClock`."""
    interrupt_check: Callable[[], None]
    """May raise to stop at a point where nothing is lost."""

    @property
    def device(self) -> Any:
        """Where the model is."""
        ...

    def forward_context(self) -> AbstractContextManager[None]:
        """Return the precision of the run's forward passes."""
        ...

    def hidden_states(self, model: Any, microbatch: Microbatch) -> Tensor:
        """Last hidden state of every packed token. Shape ``(T, H)``."""
        ...

    def token_logprobs(self, model: Any, microbatch: Microbatch) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy at every response token. Shapes ``(K,)``, float32, nats."""
        ...


@runtime_checkable
class PolicyReader(Protocol):
    """A part that reads the policy while a rollout is drawn, such as a sampler that asks for gradients."""

    def connect(self, policy: PolicyView) -> None:
        """Remember whom to ask; called once, before the first rollout and before the model is loaded."""
        ...


@runtime_checkable
class GradientNorm(PolicyReader, Protocol):
    """How long the gradients of a prompt's right answers are."""

    def measure(self, pools: Sequence[ResponsePool]) -> Sequence[float]:
        """Return, for each pool, the mean over its positives of ``|grad log pi(response)|``; 0 where it has none."""
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


@runtime_checkable
class SelectionRule(Protocol):
    """Which responses of a complete pool train, and with which weight.

    It may also define ``bend() -> str``, one line on what it does to the update, for the statement at start, and
    attributes of the class, False where they are missing:

    - ``ranks_by_advantage``: it takes advantages over the whole pool, so they must not be those of what it kept;
    - ``may_drop_a_class``: it may keep positives alone or negatives alone of a pool that has both;
    - ``keeps_what_there_is``: it has no group size;
    - ``prunes_at_random``: it leaves out responses by chance and weighs the others by ``inverse_probability``, so that
      the expected update is that of whole pools.
    """

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses; an empty tuple drops the prompt."""
        ...


@runtime_checkable
class ScreeningSelection(SelectionRule, Protocol):
    """A selection that drops whole prompts by what their pools say, whether they have a signal or not.

    A step that is filled up with groups that have a signal does not count on those.
    """

    def takes(self, pool: ResponsePool) -> bool:
        """Whether a complete pool is looked at at all. A function of the pool, and nothing that is left to chance."""
        ...


@runtime_checkable
class BatchSelection(Protocol):
    """A selection that looks at all pools of a step before it keeps anything. It may learn."""

    def select_all(self, pools: Sequence[ResponsePool]) -> Sequence[tuple[KeptResponse, ...]]:
        """Return the kept responses of each pool, in the order of the pools; an empty tuple drops the prompt.

        Must be a function of the pools and of what was observed before the step.
        """
        ...

    def observe(self, metrics: Mapping[str, float]) -> None:
        """Learn from the figures of a finished step (:attr:`PolicyModule.update_metrics` and those of its rollout)."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What outlives a step, as primitives."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        ...


@runtime_checkable
class RolloutEngine(Protocol):
    """A streaming generator of responses. The collector never waits for all prompts."""

    max_model_tokens: int
    """Prompt and response together."""

    @property
    def max_num_seqs(self) -> int:
        """Slots: requests that run at once. More may be submitted, and wait."""
        ...

    def submit(self, request_id: str, prompt_ids: Sequence[int], settings: SamplingSettings, seed: int | None) -> None:
        """Queue one response. Raises ValueError where the prompt leaves no room for a response."""
        ...

    def poll(self) -> list[Generation]:
        """Advance and return the responses that finished; empty when none did."""
        ...

    def abort(self, request_ids: Sequence[str]) -> int:
        """Drop requests. Return how many tokens had been generated for them."""
        ...

    def num_in_flight(self) -> int:
        """Requests submitted and neither returned nor aborted."""
        ...

    def load_weights(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Replace the weights and forget every cached prefix. Only legal while nothing is in flight."""
        ...

    def close(self) -> None:
        """Free everything. Safe to call twice."""
        ...


@runtime_checkable
class SleepingEngine(RolloutEngine, Protocol):
    """An engine that can give its memory back while the policy is updated. It wakes by itself when it is used."""

    sleep_level: int
    """0: it does not sleep; 1: its weights are kept elsewhere meanwhile; 2: they are gone."""

    def sleep(self) -> bool:
        """Give memory back; whether the weights will still be there. Only legal while nothing is in flight."""
        ...


@runtime_checkable
class PassRate(Protocol):
    """Which estimate of a pool's pass rate a weight or a baseline uses. Elementwise."""

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Pass rate of each response's prompt. Shape ``(B,)``, float32, in [0, 1].

        Where rewards are not binary, the expected reward in the reward's unit.
        """
        ...


@runtime_checkable
class AttentionBackend(Protocol):
    """How packed tokens attend: to those before them in their response, and to its prompt."""

    implementation: str
    """Name of its function in transformers."""
    shares_prompts: bool
    """Whether several responses may follow one prompt in a document."""
    needs_gpu: bool

    def check(self) -> None:
        """Raise ValueError where something it needs is not installed."""
        ...

    def check_model(self, model: Any) -> None:
        """Raise ValueError where this architecture cannot be trained with it."""
        ...

    def arguments(self, microbatch: Microbatch) -> Mapping[str, Any]:
        """Arguments for the model's forward pass over the microbatch, beside token and position ids."""
        ...


Compared = Literal["drawn", "kept"]
"""The responses of a prompt that a baseline is made of: all that were drawn in the step, or those that train."""


class Advantage(Protocol):
    """How much better than expected each kept response was, weight included. Elementwise.

    It may have attributes, of the class where they are always the same:

    - ``needs_groups_without_signal``: True where the advantages of a group whose rewards are all equal may differ from
      0, so that such groups are not left out of the update;
    - ``compares``: which responses of its prompt a response is compared with, so that a single one is refused;
    - ``needs_both_classes``: True where it follows its objective only if positives and negatives are kept of every pool
      that has both.
    """

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Advantages of the microbatch's responses. Shape ``(B,)``, float32."""
        ...


@runtime_checkable
class RolloutAdvantage(Protocol):
    """An advantage that needs all groups of a rollout at once, such as a mean or a spread over the whole batch.

    It is asked once per rollout; ``__call__`` then returns ``microbatch.assigned_advantage_B``.
    """

    def assign(self, groups: Sequence[ResponseGroup]) -> Sequence[Sequence[float]]:
        """Return the advantage of every kept response, group by group, in the order of ``group.kept``."""
        ...

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Return what :meth:`assign` said. Shape ``(B,)``, float32."""
        ...
