"""The loop of a rollout: submit, poll, grade, commit in launch order, ask the sampler, select.

There is no barrier between prompts: a prompt's next block starts as soon as its last one is graded. What a sampler
sees is always the complete prefix of a prompt's launch order, so the outcome has the distribution of the round-based
algorithm, whatever the order in which responses finish.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from ada_lightning.metrics.phase_clock import PhaseClock
from ada_lightning.protocols import RolloutEngine, Sampler, SelectionRule
from ada_lightning.rollout.result import RolloutStats
from ada_lightning.rollout.seeds import request_seed
from ada_lightning.types import Generation, Grade, Prompt, Response, ResponseGroup, ResponsePool, SamplingSettings

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

_IDLE_WAIT_S = 0.05  # how long to block on the graders when the engine has nothing to do


class EngineError(RuntimeError):
    """The engine broke; a restarted one can repeat the step."""


class Grader(Protocol):
    """What the collector needs of :class:`~ada_lightning.rewards.pool.RewardPool`."""

    def submit(self, ticket: Any, prompt: Prompt, text: str) -> None:
        """Queue one response text."""
        ...

    def poll(self) -> list[tuple[Any, Grade]]:
        """Return verdicts that are ready; never blocks."""
        ...

    def wait(self, timeout_s: float) -> list[tuple[Any, Grade]]:
        """Block until a verdict is ready or the time is over."""
        ...

    def discard_pending(self) -> None:
        """Forget what was submitted."""
        ...


@dataclass(slots=True)
class _PromptRun:
    """One prompt on its way through a step."""

    pool: ResponsePool
    num_launched: int = 0
    round_index: int = -1
    round_of: list[int] = field(default_factory=list)
    graded: dict[int, tuple[Generation, str, Grade]] = field(default_factory=dict)


@dataclass(slots=True)
class _Tally:
    """Running counts of a collection."""

    num_drawn: int = 0
    num_failed: int = 0
    num_truncated: int = 0
    num_empty: int = 0
    generated_tokens: int = 0
    failures: Counter[str] = field(default_factory=Counter)


class RolloutCollector:
    """Drives one engine and one grader for training and evaluation alike.

    Args:
        decode: token ids to text.
        seed: of the run; every response's own seed derives from it.
        seed_requests: give each request its seed, so that results do not depend on scheduling
            (``python -m benchmarks.engine`` measures what that costs).
        positive_threshold: a reward above it is a positive (official code: 0.7).
        truncated: what a response cut by the length limit counts as. ``grade`` like any other; ``zero`` reward 0
            without asking the grader; ``exclude`` no evidence: neither in the pool nor trained on.
        grader_failure: ``exclude`` (no evidence either way) or ``as_zero``.
        failure_alarm_ratio: warn when a larger share of a step's grades fails.

    Raises:
        ValueError: an unknown choice or a ratio outside [0, 1].
    """

    def __init__(
        self,
        *,
        decode: Callable[[Sequence[int]], str],
        seed: int,
        seed_requests: bool = True,
        positive_threshold: float = 0.7,
        truncated: Literal["grade", "zero", "exclude"] = "grade",
        grader_failure: Literal["exclude", "as_zero"] = "exclude",
        failure_alarm_ratio: float = 0.05,
    ) -> None:
        if truncated not in ("grade", "zero", "exclude"):
            raise ValueError(f"rollout.truncated must be grade, zero or exclude; got {truncated!r}")
        if grader_failure not in ("exclude", "as_zero"):
            raise ValueError(f"rollout.grader_failure must be exclude or as_zero; got {grader_failure!r}")
        if not 0 <= failure_alarm_ratio <= 1:
            raise ValueError(f"rollout.failure_alarm_ratio must be in [0, 1]; got {failure_alarm_ratio}")
        self._decode = decode
        self._seed = seed
        self._seed_requests = seed_requests
        self._positive_threshold = positive_threshold
        self._truncated = truncated
        self._grader_failure = grader_failure
        self._failure_alarm_ratio = failure_alarm_ratio
        self._num_collections = 0

    def collect(
        self,
        prompts: Sequence[Prompt],
        *,
        engine: RolloutEngine,
        grader: Grader,
        sampler: Sampler,
        selection: SelectionRule,
        settings: SamplingSettings,
        stage: str,
        step: int,
        policy_version: int,
        clock: PhaseClock | None = None,
        interrupt_check: Callable[[], None] = lambda: None,
    ) -> tuple[tuple[ResponseGroup, ...], RolloutStats]:
        """Sample every prompt until its sampler says stop, then select.

        Args:
            prompts: encoded prompts. One that leaves no room in the engine is skipped, counted and warned about.
            engine: with the weights of ``policy_version`` loaded and nothing in flight.
            grader: reward pool.
            sampler: who gets more.
            selection: what is kept.
            settings: how tokens are drawn.
            stage: ``train``, ``eval`` or ``preview``: part of every seed.
            step: rollout step, part of every seed.
            policy_version: stamped on every response.
            clock: hears of (committed, launched so far) responses, and of the seconds spent waiting for graders.
            interrupt_check: called between engine steps; may raise to interrupt the collection.

        Returns:
            One group per prompt that was not skipped, in the order given, and the counts.

        Raises:
            EngineError: the engine failed; nothing of this collection is left in flight.
        """
        collection = _Collection(
            self, engine, grader, sampler, settings, stage, step, policy_version, clock or PhaseClock(), interrupt_check
        )
        started = time.monotonic()
        runs = collection.run(prompts)
        groups = tuple(ResponseGroup(run.pool, selection.select(run.pool)) for run in runs)
        return groups, collection.stats(num_skipped=len(prompts) - len(runs), seconds=time.monotonic() - started)

    def _next_collection_id(self) -> int:
        self._num_collections += 1
        return self._num_collections


class _Collection:
    """State of one :meth:`RolloutCollector.collect`."""

    def __init__(
        self,
        owner: RolloutCollector,
        engine: RolloutEngine,
        grader: Grader,
        sampler: Sampler,
        settings: SamplingSettings,
        stage: str,
        step: int,
        policy_version: int,
        clock: PhaseClock,
        interrupt_check: Callable[[], None],
    ) -> None:
        self._owner = owner
        self._engine = engine
        self._grader = grader
        self._sampler = sampler
        self._settings = settings
        self._stage = stage
        self._step = step
        self._policy_version = policy_version
        self._clock = clock
        self._interrupt_check = interrupt_check
        self._id = owner._next_collection_id()
        self._requests: dict[str, tuple[_PromptRun, int]] = {}
        self._grading: dict[tuple[int, int, int], tuple[_PromptRun, int, Generation, str]] = {}
        self._num_launched = 0
        self._tally = _Tally()
        self._runs: list[_PromptRun] = []

    def run(self, prompts: Sequence[Prompt]) -> list[_PromptRun]:
        """Return the finished runs of all prompts that fit."""
        try:
            runs = self._start(prompts)
            while self._requests or self._grading:
                for generation in self._guarded(self._engine.poll):
                    self._receive(generation)
                for ticket, grade in self._verdicts():
                    self._commit(ticket, grade)
                self._clock.report(self._tally.num_drawn, self._num_launched)
                self._interrupt_check()
        except BaseException:
            self._drop_requests()
            raise
        return runs

    def _verdicts(self) -> list[tuple[Any, Grade]]:
        """Take what the graders have; wait for them only when the engine has nothing left to do."""
        if self._requests:
            return self._grader.poll()
        if not self._grading:
            return []
        with self._clock.phase("grade"):
            return self._grader.wait(_IDLE_WAIT_S)

    def stats(self, *, num_skipped: int, seconds: float) -> RolloutStats:
        """Counts of the finished collection; alarms when too many grades failed."""
        tally = self._tally
        if tally.num_drawn and tally.num_failed / tally.num_drawn > self._owner._failure_alarm_ratio:
            warnings.warn(
                f"{tally.num_failed} of {tally.num_drawn} responses could not be graded: {dict(tally.failures)}; "
                f"treated as {self._owner._grader_failure!r}. Check the reward function.",
                RuntimeWarning,
                stacklevel=3,
            )
        return RolloutStats(
            num_prompts=len(self._runs),
            num_drawn=tally.num_drawn,
            num_failed=tally.num_failed,
            num_truncated=tally.num_truncated,
            num_empty=tally.num_empty,
            num_skipped_prompts=num_skipped,
            generated_tokens=tally.generated_tokens,
            wasted_tokens=0,
            failures=dict(tally.failures),
            seconds=seconds,
        )

    def _start(self, prompts: Sequence[Prompt]) -> list[_PromptRun]:
        for slot, prompt in enumerate(prompts):
            room = self._engine.max_model_tokens - self._settings.max_new_tokens
            if len(prompt.prompt_ids) > room:
                warnings.warn(
                    f"prompt {prompt.prompt_id} has {len(prompt.prompt_ids)} tokens, the engine has room for {room}: "
                    "skipped. Lower data.max_prompt_tokens or raise rollout.max_model_tokens.",
                    RuntimeWarning,
                    stacklevel=4,
                )
                continue
            run = _PromptRun(ResponsePool(prompt, slot))
            self._runs.append(run)
            self._launch_round(run)
        return self._runs

    def _launch_round(self, run: _PromptRun) -> None:
        """Ask the sampler, which sees only committed responses, and submit what it wants."""
        num_to_draw = self._sampler.num_to_draw(run.pool)
        if num_to_draw <= 0:
            return
        run.round_index += 1
        for _ in range(num_to_draw):
            sample_index = run.num_launched
            run.num_launched += 1
            run.round_of.append(run.round_index)
            request_id = f"{self._id}/{run.pool.slot}/{sample_index}"
            self._guarded(
                self._engine.submit,
                request_id,
                run.pool.prompt.prompt_ids,
                self._settings,
                self._seed_of(run.pool, sample_index),
            )
            self._requests[request_id] = (run, sample_index)
            self._num_launched += 1

    def _seed_of(self, pool: ResponsePool, sample_index: int) -> int | None:
        if not self._owner._seed_requests:
            return None
        return request_seed(
            run_seed=self._owner._seed,
            stage=self._stage,
            step=self._step,
            slot=pool.slot,
            prompt_id=pool.prompt.prompt_id,
            sample_index=sample_index,
        )

    def _receive(self, generation: Generation) -> None:
        """Hand a finished response to the graders."""
        run, sample_index = self._requests.pop(generation.request_id)
        text = self._owner._decode(generation.response_ids)
        ticket = (self._id, run.pool.slot, sample_index)
        self._grading[ticket] = (run, sample_index, generation, text)
        if generation.is_truncated and self._owner._truncated != "grade":
            self._commit(ticket, Grade(reward=0.0))
        else:
            self._grader.submit(ticket, run.pool.prompt, text)

    def _commit(self, ticket: tuple[int, int, int], grade: Grade) -> None:
        """Store a verdict and commit the prefix of the launch order that is complete."""
        waiting = self._grading.pop(ticket, None)
        if waiting is None:  # left over from an interrupted collection
            return
        run, sample_index, generation, text = waiting
        run.graded[sample_index] = (generation, text, grade)
        while run.pool.num_drawn in run.graded:
            index = run.pool.num_drawn
            self._commit_one(run, index, *run.graded.pop(index))
        if run.pool.num_drawn == run.num_launched:
            self._launch_round(run)

    def _commit_one(self, run: _PromptRun, index: int, generation: Generation, text: str, grade: Grade) -> None:
        tally = self._tally
        tally.num_drawn += 1
        tally.num_truncated += generation.is_truncated
        tally.num_empty += not text.strip()
        tally.generated_tokens += len(generation.response_ids)
        reward = grade.reward
        if reward is None:
            tally.num_failed += 1
            tally.failures[grade.failure] += 1
            if self._owner._grader_failure == "exclude":
                run.pool.num_failed += 1
                run.pool.num_drawn += 1
                return
            reward = 0.0
        if generation.is_truncated and self._owner._truncated == "exclude":
            run.pool.num_truncated_excluded += 1
            run.pool.num_drawn += 1
            return
        run.pool.add(
            Response(
                prompt_id=run.pool.prompt.prompt_id,
                sample_index=index,
                round_index=run.round_of[index],
                response_ids=generation.response_ids,
                sampling_logprobs=generation.sampling_logprobs,
                text=text,
                is_truncated=generation.is_truncated,
                reward=reward,
                is_positive=reward > self._owner._positive_threshold,
                policy_version=self._policy_version,
            )
        )

    def _guarded(self, call: Callable[..., T], *args: object) -> T:
        try:
            return call(*args)
        except Exception as error:
            raise EngineError(f"{type(error).__name__}: {error}") from error

    def _drop_requests(self) -> None:
        """Leave nothing in flight after an interrupt or an error."""
        self._grading.clear()
        leftovers = list(self._requests)
        self._requests.clear()
        self._grader.discard_pending()
        try:
            self._engine.abort(leftovers)
        except Exception as error:
            warnings.warn(f"the engine did not abort its requests: {error}", RuntimeWarning, stacklevel=2)


def load_weights(engine: RolloutEngine, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
    """Put the policy's weights into the engine, as :class:`EngineError` where that fails.

    Raises:
        EngineError: the engine failed.
    """
    try:
        engine.load_weights(named_tensors, policy_version)
    except Exception as error:
        raise EngineError(f"{type(error).__name__}: {error}") from error
