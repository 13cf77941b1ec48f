"""One engine for a whole run: opened once, synced once per policy version, restarted when it breaks."""

from __future__ import annotations

import gc
import math
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import Prompt, SamplingSettings
from ada_lightning.core.schedule import Continuous, Schedule
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection.all import AllSelection
from ada_lightning.rollout.drawn import Draw, DrawCounts, DrawnPrompt
from ada_lightning.rollout.driver import Driver
from ada_lightning.rollout.engines.errors import EngineError, guarded
from ada_lightning.rollout.engines.host import EngineHost, TrainerProcess
from ada_lightning.rollout.engines.time_limit import TimeLimit
from ada_lightning.rollout.episodes.continuation import Continuation
from ada_lightning.rollout.episodes.open_episodes import OpenEpisodes
from ada_lightning.rollout.episodes.pool import EnvironmentPool
from ada_lightning.rollout.first_grades import FirstGrades
from ada_lightning.rollout.grader import Grader, StepwiseGrader
from ada_lightning.rollout.phase_clock import PhaseClock
from ada_lightning.rollout.sampling_thread import Sample, SamplingThread

if TYPE_CHECKING:
    from torch import Tensor


_TURN_WAIT_S = 0.2


class RolloutService:
    """What callbacks use to sample from the current policy (:meth:`sample`), and others from fixed weights.

    Args:
        engine: completed with ``model_path``, ``log_file``, ``max_model_tokens`` and ``eos_token_ids``, as
            ``_partial_: true`` gives it. A class may have a static ``check_arguments(**arguments)``, which judges what
            it is given without starting anything. None: vLLM with its class's own defaults, for a CPU.
        sampling: how training responses are drawn.
        max_model_tokens: prompt and response together, in tokens.
        seed: of the run; every response's own seed derives from it.
        seed_requests: give each request its own seed, so that results do not depend on scheduling.
        positive_threshold: a reward above it is a positive.
        truncated: what a response cut by the length limit counts as, see
            :class:`~ada_lightning.core.step_records.StepSettings`.
        grader_failure: what a response counts as whose grader failed through no doing of its own; see there.
        failure_alarm_ratio: warn when a larger share of a step's grades fails.
        schedule: when a prompt's next block may start.
        max_engine_restarts: times a broken engine is replaced and its step repeated, in a row.
        host: where the engine lives.
        stall_limit_s: seconds that one call of the engine may take (a step, a weight sync) before the process ends
            (:class:`~ada_lightning.rollout.engines.time_limit.TimeLimit`).
        start_limit_s: the same for the start of an engine, with all it loads, compiles and captures.
        reproducible: what the engine computes depends on seeds and weights alone: verdicts count at fixed engine steps,
            and every rollout starts with an empty prefix cache, whatever was sampled before it. It holds for an engine
            that steps when it is polled, as one in this process does, and for no other.
        max_staleness: k, by how many steps the policy that samples lags behind the one that trains, exactly: step s is
            sampled by the policy of step ``max(0, s - k)``. Steps are then sampled while the trainer updates if the
            engine lives outside of its process; else nothing overlaps.
        verdict_delay: then, engine steps between a response and its verdict, or a turn and the environment's answer.
        environment: answers the model's turns, so that a response is an episode of several; None: it is a single turn.

    Raises:
        ValueError: a setting is out of range.
    """

    def __init__(
        self,
        *,
        engine: Callable[..., RolloutEngine] | None = None,
        sampling: SamplingSettings = SamplingSettings(max_new_tokens=32),  # noqa: B008 - frozen
        max_model_tokens: int = 320,
        seed: int = 0,
        seed_requests: bool = True,
        positive_threshold: float = 0.7,
        truncated: Literal["grade", "zero", "exclude", "mask"] = "grade",
        grader_failure: Literal["exclude", "as_zero"] = "exclude",
        failure_alarm_ratio: float = 0.05,
        schedule: Schedule = Continuous(),  # noqa: B008 - frozen
        max_engine_restarts: int = 2,
        host: EngineHost = TrainerProcess(),  # noqa: B008 - frozen
        stall_limit_s: float = 600.0,
        start_limit_s: float = 1800.0,
        reproducible: bool = False,
        verdict_delay: int = 4,
        max_staleness: int = 0,
        environment: EnvironmentPool | None = None,
    ) -> None:
        for name, value, least, most in (
            ("max_model_tokens", max_model_tokens, 2, math.inf),
            ("max_engine_restarts", max_engine_restarts, 0, math.inf),
            ("failure_alarm_ratio", failure_alarm_ratio, 0, 1),
            ("verdict_delay", verdict_delay, 0, math.inf),
            ("max_staleness", max_staleness, 0, math.inf),
        ):
            if not least <= value <= most:
                bounds = f"at least {least}" if most == math.inf else f"in [{least}, {most}]"
                raise ValueError(f"rollout.{name} must be {bounds}; got {value}")
        if reproducible and not seed_requests:
            raise ValueError(
                "reproducible=true needs rollout.seed_requests=true: an engine that is replaced would draw other "
                "tokens, from a stream of its own"
            )
        self.sampling = sampling
        self.max_model_tokens = max_model_tokens
        self.settings = StepSettings(
            seed=seed,
            seed_requests=seed_requests,
            positive_threshold=positive_threshold,
            truncated=truncated,
            grader_failure=grader_failure,
            schedule=schedule,
        )
        self.failure_alarm_ratio = failure_alarm_ratio
        self.reproducible = reproducible
        self.max_staleness = max_staleness
        self._verdict_delay = verdict_delay
        self.environment = environment
        self._continuation: Continuation | None = None
        self._names = map(str, count(1))
        self._engine_factory = engine or _vllm()
        self._max_engine_restarts = max_engine_restarts
        self._host = host
        self._time_limit = TimeLimit(
            stall_limit_s=stall_limit_s, start_limit_s=start_limit_s, report_file=Path("stalled.txt")
        )
        self.weight_dtype = ""
        """Type that the engine wants weights in, once it is open."""
        self.takes_adapters = False
        """Whether it wants a policy's adapters alone."""
        self._open_engine: Callable[[], RolloutEngine] | None = None
        self._engine: RolloutEngine | None = None
        self._loaded_version: int | None = None
        self._num_restarts = 0
        self._turn = Lock()
        """Of whoever samples with the engine."""
        self._thread: SamplingThread | None = None

    def check(self) -> None:
        """Raise ValueError for what is wrong with the engine's place or arguments, before a model loads."""
        self._host.check()
        if self.environment is not None:
            self.environment.check()
        engine = self._engine_factory
        if isinstance(engine, partial) and callable(check := getattr(engine.func, "check_arguments", None)):
            check(**engine.keywords)

    def check_template(self, tokenizer: Any, eos_token_ids: Sequence[int]) -> None:
        """Find out how episodes are extended with this tokenizer, where responses are episodes.

        Raises:
            ContinuationError: its chat template does not allow it.
        """
        if self.environment is not None:
            environment = self.environment
            self._continuation = Continuation(tokenizer, environment.format, eos_token_ids, environment.role)

    def open(
        self, *, model_path: Path, tokenizer: Any, eos_token_ids: Sequence[int], grader: Grader, log_file: Path
    ) -> None:
        """Start the engine, with the weights of ``model_path`` until the first :meth:`sample` loads newer ones.

        Raises:
            EngineError: it did not start.
            ValueError: it was asked for something that it cannot do.
        """
        self._tokenizer = tokenizer
        self.check_template(tokenizer, eos_token_ids)
        if self.environment is not None:
            self.environment.start()
        self.grade_with(grader)
        engine = partial(
            self._engine_factory,
            model_path=model_path,
            max_model_tokens=self.max_model_tokens,
            eos_token_ids=eos_token_ids,
        )
        self._open_engine = lambda: self._host.open(engine, log_file)
        self._time_limit.report_file = log_file.with_name("stalled.txt")
        try:
            self._engine = self._started()
        except (EngineError, ValueError):
            raise
        except Exception as error:
            raise EngineError(f"it did not start: {type(error).__name__}: {error}") from error
        self._loaded_version = None
        self.weight_dtype, self.takes_adapters = self._engine.weight_dtype, self._engine.takes_adapters

    def sample(
        self,
        begin: Callable[..., Step],
        *,
        weights: Callable[[], Iterable[tuple[str, Tensor]]],
        policy_version: int,
        stage: str,
        sampling: SamplingSettings | None = None,
        clock: PhaseClock,
        interrupt_check: Callable[[], None] = lambda: None,
        probe: Callable[[RolloutEngine], object] = lambda engine: None,
    ) -> Step:
        """Return a step that the given policy version has completed, when everybody else is done with the engine.

        The weights are loaded before the first request, once per version. A broken engine is replaced and the step
        repeated; seeded requests then give the same responses again. What the step keeps is still to be chosen:
        :meth:`~ada_lightning.core.step.Step.result`.

        Args:
            begin: makes the step whenever it is called, with ``settings``, ``stage``, ``policy_version`` and
                ``max_prompt_tokens``.
            weights: gives the named tensors of the policy; called once per sync.
            policy_version: of those weights.
            stage: ``train``, ``eval`` or ``preview``. A held-out figure must count every response, whatever training
                leaves out.
            sampling: how tokens are drawn; as in training if not given.
            clock: times ``sync`` and ``rollout`` and hears of progress.
            interrupt_check: called between engine steps; may raise.
            probe: called with the engine when it has the weights, before the first request.

        Raises:
            EngineError: the engine broke more often in a row than ``max_engine_restarts``.
            RunStoppedError: the reward has graded nothing, neither in this rollout nor before.
            RuntimeError: the service is not open.
        """
        sampling = sampling or self.sampling
        settings = self.settings
        if stage == "eval":
            settings = replace(settings, truncated="grade", grader_failure="as_zero")
        with self._own_turn(clock, interrupt_check):
            if self.reproducible:  # cached prefixes were computed in batches that a resumed run does not repeat
                self._loaded_version = None
            for attempt in range(self._max_engine_restarts + 1):
                try:
                    # An engine may have less room than it was asked for.
                    room = min(self.max_model_tokens, self._opened_engine().max_model_tokens)
                    step = begin(
                        settings=settings,
                        stage=stage,
                        policy_version=policy_version,
                        max_prompt_tokens=room - sampling.max_new_tokens,
                    )
                    self._sync(policy_version, weights, clock)
                    probe(self._opened_engine())
                    self._drive(step, settings, sampling, clock, interrupt_check)
                except EngineError as error:
                    if attempt == self._max_engine_restarts:
                        raise
                    self._note_broken(error)
                    continue
                where = {"eval": "of the held-out prompts", "preview": "of the preview"}.get(
                    stage, f"of step {step.step}"
                )
                self._first_grades.check(step.stats, settings, alarm_ratio=self.failure_alarm_ratio, where=where)
                return step
        raise AssertionError("unreachable: the last attempt returns or raises")

    def start(
        self,
        begin: Callable[..., Step],
        *,
        weights: Callable[[], Iterable[tuple[str, Tensor]]],
        policy_version: int,
        probe: Callable[[RolloutEngine], object] = lambda engine: None,
    ) -> Sample:
        """Have a training step sampled by weights that stay, after those that were started before.

        With an engine that works by itself that happens from now on, beside whatever the caller does; else when it is
        asked for. The step is the same. What it keeps is to be chosen when its turn to train has come, as a selection
        may learn.

        Args:
            begin: as in :meth:`sample`; must not read what the caller changes meanwhile.
            weights: as in :meth:`sample`.
            policy_version: of those weights.
            probe: as in :meth:`sample`.

        Returns:
            What gives the complete step, and raises what :meth:`sample` does.
        """
        sample = partial(self.sample, begin, weights=weights, policy_version=policy_version, stage="train", probe=probe)
        if not self.samples_beside_trainer:
            return sample
        self._thread = self._thread or SamplingThread()
        return self._thread.start(sample)

    @property
    def samples_beside_trainer(self) -> bool:
        """Whether a step that was started is sampled while the trainer updates."""
        return self._host.works_by_itself

    def stop_started(self) -> None:
        """Leave steps that were started where they are: nobody will ask for them."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    @contextmanager
    def _own_turn(self, clock: PhaseClock, interrupt_check: Callable[[], None]) -> Iterator[None]:
        """Wait for whoever samples."""
        if not self._turn.acquire(blocking=False):
            with clock.phase("rollout"):
                while not self._turn.acquire(timeout=_TURN_WAIT_S):
                    interrupt_check()
        try:
            yield
        finally:
            self._turn.release()

    def draw(
        self,
        prompts: Sequence[tuple[int, Prompt]],
        *,
        num_samples: int,
        stage: str,
        settings: SamplingSettings | None = None,
        has_graded: bool = False,
        report: Callable[[DrawCounts], None] = lambda counts: None,
        interrupt_check: Callable[[], None] = lambda: None,
    ) -> Generator[DrawnPrompt, None, None]:
        """Draw and grade responses of the weights that the engine was opened with; nothing is synced.

        Every response has a seed of its position, prompt and sample index, so it does not matter which prompts are
        drawn together, nor in how many parts. The seeds are those of step 0 of ``stage``. A broken engine is replaced,
        and what it owed is drawn again.

        Args:
            prompts: (position in the whole list, encoded prompt), positions distinct.
            num_samples: responses per prompt.
            stage: part of every seed.
            settings: how tokens are drawn; those of training if not given.
            has_graded: whether the reward graded a response of this list before; else it must before anything is kept.
            report: told of the counts after every engine step.
            interrupt_check: called between engine steps; may raise.

        Yields:
            Each prompt once all of its responses are graded, in the order of becoming so.

        Raises:
            EngineError: the engine broke more often in a row than ``max_engine_restarts``.
            RunStoppedError: the reward has graded nothing so far; nothing was yielded.
            RuntimeError: the service is not open, or its engine holds weights of a training run.
            ValueError: a prompt leaves no room for a response.
        """
        if self._loaded_version is not None:
            raise RuntimeError(f"the engine holds policy version {self._loaded_version}; fixed weights need their own")
        sampling = settings or self.sampling
        self._check_room(prompts, sampling)
        if has_graded:
            self._first_grades.trust()
        raw = replace(self.settings, truncated="grade")  # what a response counts as is the reader's to say
        begin = partial(Step, sampler=UniformSampler(group_size=num_samples), selection=AllSelection(), settings=raw)
        counts = DrawCounts()

        def tell_counts() -> None:
            counts.num_responses, counts.num_tokens = driver.num_generated, driver.num_tokens
            report(counts)

        # Each prompt is a step of its own, opened as slots get free, and nothing is kept of it once it is handed over.
        driver = Driver(
            (begin([prompt], stage=stage, first_slot=position) for position, prompt in prompts),
            sampling=sampling,
            settings=raw,
            grader=self._grader,
            decode=self._decode,
            episodes=self._episodes(sampling, raw),
            name=next(self._names),
            outlives_engine=True,
            report=tell_counts,
            interrupt_check=interrupt_check,
        )
        yield from self._once_one_is_graded(driver, counts)

    def _check_room(self, prompts: Sequence[tuple[int, Prompt]], sampling: SamplingSettings) -> None:
        longest = max((len(prompt.prompt_ids) for _, prompt in prompts), default=0)
        if (needed := longest + sampling.max_new_tokens) > self.max_model_tokens:
            raise ValueError(
                f"rollout.max_model_tokens = {self.max_model_tokens} has no room for the longest prompt of {longest} "
                f"tokens and a response of {sampling.max_new_tokens}; use rollout.max_model_tokens={needed} or more, "
                "or lower data.max_prompt_tokens"
            )

    def _once_one_is_graded(self, driver: Driver, counts: DrawCounts) -> Generator[DrawnPrompt, None, None]:
        """Hold prompts back until a response is graded: what a broken reward said is not to be kept."""
        held: list[DrawnPrompt] = []
        for step in self._steps_in_spite_of_breaks(driver):
            counts.num_prompts += 1
            held.append(_drawn(step))
            if self._first_grades.note(held[-1]):
                yield from held
                held.clear()
        if held:
            self._first_grades.check_list()

    def _steps_in_spite_of_breaks(self, driver: Driver) -> Generator[Step, None, None]:
        """Yield steps as they are complete; a broken engine is replaced, and what it owed is drawn again."""
        num_in_a_row = 0
        while True:
            try:
                for step in driver.run(self._opened_engine()):
                    num_in_a_row = 0
                    yield step
                return
            except EngineError as error:
                num_in_a_row += 1
                if num_in_a_row > self._max_engine_restarts:
                    raise
                self._note_broken(error)

    def grade_with(self, grader: Grader) -> None:
        """Grade what is drawn from now on with another reward; the engine stays as it is."""
        self._grader, self._first_grades = grader, FirstGrades(grader)

    @property
    def num_slots(self) -> int:
        """Sequences that the engine runs at once.

        Raises:
            EngineError: a broken engine could not be replaced.
            RuntimeError: the service is not open.
        """
        return self._opened_engine().max_num_seqs

    @property
    def num_restarts(self) -> int:
        """Engines replaced so far, by this service and within a pool."""
        engine = self._engine  # a step that is sampled beside the trainer may discard it now
        return self._num_restarts + (engine.num_restarts if engine else 0)

    def close(self) -> None:
        """Stop the engine. Safe to call twice."""
        self.stop_started()
        self._discard_engine()
        self._open_engine = None
        self._time_limit.close()
        if self.environment is not None:
            self.environment.close()

    def _episodes(
        self, sampling: SamplingSettings, settings: StepSettings, interrupt_check: Callable[[], None] | None = None
    ) -> OpenEpisodes | None:
        """Return what takes turns to environments; with an ``interrupt_check``, at fixed engine steps where asked."""
        if self.environment is None or self._continuation is None:
            return None
        environments: Any = self.environment
        if self.reproducible and interrupt_check is not None:
            environments = StepwiseGrader(environments, delay=self._verdict_delay, interrupt_check=interrupt_check)
        return OpenEpisodes(
            environments,
            self._continuation.after,
            sampling=sampling,
            max_turns=self.environment.max_turns,
            seed=settings.seed,
        )

    def _sync(
        self, policy_version: int, weights: Callable[[], Iterable[tuple[str, Tensor]]], clock: PhaseClock
    ) -> None:
        """Load a version unless the engine has it."""
        if self._loaded_version != policy_version:
            with clock.phase("sync"):
                guarded(self._opened_engine().load_weights, weights(), policy_version)
            self._loaded_version = policy_version

    def _drive(
        self,
        step: Step,
        settings: StepSettings,
        sampling: SamplingSettings,
        clock: PhaseClock,
        interrupt_check: Callable[[], None],
    ) -> None:
        """Sample and let rest. A method, so that its end leaves no variable that holds a broken engine."""
        engine = self._opened_engine()
        is_training = step.stage not in ("eval", "preview")  # else waiting belongs to what it is done for
        grader = self._grader
        if self.reproducible:
            grader = StepwiseGrader(grader, delay=self._verdict_delay, interrupt_check=interrupt_check)
        driver = Driver(
            [step],
            sampling=sampling,
            settings=settings,
            grader=grader,
            decode=self._decode,
            episodes=self._episodes(sampling, settings, interrupt_check),
            name=next(self._names),
            waiting=lambda: clock.phase("grade") if is_training else nullcontext(),
            report=lambda: clock.report(step.stats.num_drawn, step.num_launched),
            interrupt_check=interrupt_check,
        )
        with clock.phase("rollout" if is_training else step.stage):
            started = time.monotonic()
            list(driver.run(engine))
            step.stats.seconds = time.monotonic() - started
        if engine.sleep_level and not guarded(engine.sleep):  # weights that are gone are loaded again before use
            self._loaded_version = None

    def _opened_engine(self) -> RolloutEngine:
        """Return the engine, a new one where the last was discarded."""
        if self._open_engine is None:
            raise RuntimeError("the rollout service is not open")
        if self._engine is None:
            gc.collect()  # a step that broke off refers to itself and to its engine, whose memory the next one needs
            try:
                self._engine = self._started()
            except Exception as error:
                raise EngineError(f"restart failed: {type(error).__name__}: {error}") from error
        return self._engine

    def _started(self) -> RolloutEngine:
        """Start an engine whose calls must end."""
        assert self._open_engine is not None
        with self._time_limit.watch("start", "start_limit_s"):
            return self._time_limit.engine(self._open_engine())

    def _note_broken(self, error: EngineError) -> None:
        self._num_restarts += 1
        warnings.warn(f"the engine broke ({error}); restarting it", RuntimeWarning, stacklevel=3)
        self._discard_engine()

    def _discard_engine(self) -> None:
        engine, self._engine, self._loaded_version = self._engine, None, None
        if engine is None:
            return
        self._num_restarts += engine.num_restarts
        try:
            engine.close()
        except Exception as error:
            warnings.warn(f"the engine did not close cleanly: {error}", RuntimeWarning, stacklevel=2)

    def _decode(self, response_ids: Sequence[int]) -> str:
        return self._tokenizer.decode(response_ids, skip_special_tokens=True)


def _drawn(step: Step) -> DrawnPrompt:
    """Return all that was drawn for the only prompt of a step."""
    ((prompt, slot),) = [(group.pool.prompt, group.pool.slot) for group in step.finish()]
    draws = (
        Draw(index, outcome.text, outcome.num_tokens, outcome.is_truncated, outcome.grade, outcome.turns)
        for index, outcome in sorted(step.outcomes(slot).items())
    )
    return DrawnPrompt(slot, prompt, tuple(draws))


def _vllm() -> Callable[..., RolloutEngine]:
    from ada_lightning.rollout.engines.vllm_engine import VllmEngine

    return VllmEngine
