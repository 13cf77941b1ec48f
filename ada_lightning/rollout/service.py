"""Steps sampled and graded from the weights of a policy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import ResponsePool, SamplingSettings
from ada_lightning.core.schedule import Continuous, Schedule
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.rollout.drafts import Drafts
from ada_lightning.rollout.driver import Driver
from ada_lightning.rollout.engine_supervisor import EngineSupervisor
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.host import EngineHost, TrainerProcess
from ada_lightning.rollout.episodes.continuation import Continuation
from ada_lightning.rollout.episodes.open_episodes import OpenEpisodes
from ada_lightning.rollout.episodes.pool import EnvironmentPool
from ada_lightning.rollout.grader import FirstGrades, Grader, StepwiseGrader
from ada_lightning.rollout.probe import Probe
from ada_lightning.rollout.sampling_thread import Sample, SamplingThread
from ada_lightning.run.phase_clock import PhaseClock

if TYPE_CHECKING:
    from torch import Tensor


class RolloutService:
    """What callbacks sample with; :func:`~ada_lightning.rollout.fixed_weights.draw` takes it for fixed weights.

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
        stream_gradients: compute the gradients of prompts that are complete while the engine samples the others of
            their step, for the same update (:class:`~ada_lightning.training.streamed.StreamedGradients`). The
            engine lives outside of the trainer's process then.
        verdict_delay: where reproducible, engine steps between a response and its verdict, or a turn and the
            environment's answer.
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
        stream_gradients: bool = False,
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
        if stream_gradients and not host.works_by_itself:
            raise ValueError(
                "rollout.stream_gradients computes gradients while the engine samples, but an engine in the trainer's "
                "process does one thing at a time; use rollout=vllm_process, or rollout.stream_gradients=false"
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
        self.stream_gradients = stream_gradients
        self._verdict_delay = verdict_delay
        self.environment = environment
        self._continuation: Continuation | None = None
        self._names = map(str, count(1))
        self.engine = EngineSupervisor(
            engine or _vllm(),
            host,
            max_restarts=max_engine_restarts,
            stall_limit_s=stall_limit_s,
            start_limit_s=start_limit_s,
        )
        """Whichever one it is just now."""
        self._thread: SamplingThread | None = None

    def check(self) -> None:
        """Raise ValueError for what is wrong with the engine's place or arguments, before a model loads."""
        self.engine.check()
        if self.environment is not None:
            self.environment.check()

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
        self.engine.open(
            log_file, model_path=model_path, max_model_tokens=self.max_model_tokens, eos_token_ids=eos_token_ids
        )

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
        probe: Probe | None = None,
        ended: Callable[[ResponsePool], object] = lambda pool: None,
        drafts: Drafts | None = None,
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
            probe: what is drawn when the engine has the weights, before the first request.
            ended: called with every pool as soon as it is complete; once more, with another pool for the same prompt,
                where the step is repeated with another engine.
            drafts: guesses at the responses of an evaluation, only where :attr:`takes_drafts`. They change its time
                and nothing else.

        Raises:
            ValueError: drafts for something else than an evaluation, or where none are taken.
            EngineError: the engine broke more often in a row than ``max_engine_restarts``.
            RunStoppedError: the reward has graded nothing, neither in this rollout nor before.
            RuntimeError: the service is not open.
        """
        if drafts and not (stage == "eval" and self.takes_drafts):
            raise ValueError(
                f"drafts came for stage {stage!r}, and takes_drafts is {self.takes_drafts}; give them to evaluations, "
                "where the service takes them"
            )
        sampling = sampling or self.sampling
        settings = self.settings
        if stage == "eval":
            settings = replace(settings, truncated="grade", grader_failure="as_zero")
        with self.engine.turn(clock, interrupt_check):
            if self.reproducible:  # cached prefixes were computed in batches that a resumed run does not repeat
                self.engine.loaded_version = None
            num_broken = 0
            while True:
                try:
                    step = self._begun(begin, settings, sampling, stage=stage, policy_version=policy_version)
                    self.engine.sync(policy_version, weights, clock)
                    if probe is not None:
                        probe.run(self.engine.opened())
                    self._drive(step, settings, sampling, clock, interrupt_check, ended, drafts)
                except EngineError as error:
                    num_broken += 1
                    self.engine.give_up(error, num_broken)
                else:
                    self._check_grades(step, settings)
                    return step

    def _begun(
        self, begin: Callable[..., Step], settings: StepSettings, sampling: SamplingSettings, **of_step: Any
    ) -> Step:
        # An engine may have less room than it was asked for.
        room = min(self.max_model_tokens, self.engine.opened().max_model_tokens)
        return begin(settings=settings, max_prompt_tokens=room - sampling.max_new_tokens, **of_step)

    def _check_grades(self, step: Step, settings: StepSettings) -> None:
        where = {"eval": "of the held-out prompts", "preview": "of the preview"}.get(step.stage, f"of step {step.step}")
        responses = () if step.stage == "preview" else step.responses  # a preview has several rollouts
        self.first_grades.check(
            step.stats, settings, alarm_ratio=self.failure_alarm_ratio, where=where, responses=responses
        )

    def start(
        self,
        begin: Callable[..., Step],
        *,
        weights: Callable[[], Iterable[tuple[str, Tensor]]],
        policy_version: int,
        probe: Probe | None = None,
        ended: Callable[[ResponsePool], object] = lambda pool: None,
    ) -> Sample:
        """Have a training step sampled by weights that stay, after those that were started before.

        If the engine works by itself, sampling starts now, while the caller does other things, and together with older
        steps if the engine serves several versions. Otherwise it starts when it is asked for. The step is the same.
        What it keeps is chosen when its turn to train has come, because a selection may learn.

        Args:
            begin: as in :meth:`sample`; must not read what the caller changes meanwhile.
            weights: as in :meth:`sample`.
            policy_version: of those weights.
            probe: as in :meth:`sample`.
            ended: called with every pool as soon as it is complete, from another thread where the engine works by
                itself; else as in :meth:`sample`.

        Returns:
            What gives the complete step, and raises what :meth:`sample` does.
        """
        options: dict[str, Any] = {"weights": weights, "policy_version": policy_version, "probe": probe, "ended": ended}
        if not self.samples_beside_trainer:
            return partial(self.sample, begin, stage="train", **options)
        whole: dict[str, Any] = {"settings": self.settings, "sampling": self.sampling}
        if self._thread is None:
            check = partial(self._check_grades, settings=self.settings)
            self._thread = SamplingThread(self.engine, partial(self.driver, **whole), check)
        begun = partial(self._begun, begin, **whole, stage="train", policy_version=policy_version)
        return self._thread.start(begun, **options)

    @property
    def takes_drafts(self) -> bool:
        """Whether guesses at the responses of an evaluation make it faster.

        Where reproducible, what the engine computes depends on seeds and weights alone, down to the last digit. The
        turns of an episode are requests of their own, which no earlier response of the prompt guesses at.
        """
        return self.engine.takes_drafts and not self.reproducible and self.environment is None

    @property
    def samples_beside_trainer(self) -> bool:
        """Whether a step that was started is sampled while the trainer updates."""
        return self.engine.works_by_itself

    def stop_started(self) -> None:
        """Leave steps that were started where they are: nobody will ask for them."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    def grade_with(self, grader: Grader) -> None:
        """Grade what is drawn from now on with another reward; the engine stays as it is."""
        self._grader, self.first_grades = grader, FirstGrades(grader)

    def close(self) -> None:
        """Stop the engine. Safe to call twice."""
        self.stop_started()
        self.engine.close()
        if self.environment is not None:
            self.environment.close()

    def driver(
        self,
        steps: Iterable[Step | None],
        sampling: SamplingSettings,
        settings: StepSettings,
        *,
        at_fixed_steps: bool = False,
        interrupt_check: Callable[[], None],
        **own: Any,
    ) -> Driver:
        """Return what generates and grades steps, however many engines that takes.

        Args:
            steps: in the order in which they are opened; None: none now.
            sampling: how tokens are drawn.
            settings: those of the steps.
            at_fixed_steps: verdicts, and answers of environments, count ``verdict_delay`` engine steps after what they
                answer; else as soon as they are there.
            interrupt_check: called between engine steps; may raise.
            own: further arguments of :class:`~ada_lightning.rollout.driver.Driver`.
        """

        def timed(answers: Any) -> Any:
            if not at_fixed_steps:
                return answers
            return StepwiseGrader(answers, delay=self._verdict_delay, interrupt_check=interrupt_check)

        episodes = None
        if self.environment is not None and self._continuation is not None:
            episodes = OpenEpisodes(
                timed(self.environment),
                self._continuation.after,
                max_turns=self.environment.max_turns,
                seed=settings.seed,
            )
        return Driver(
            steps,
            sampling=sampling,
            settings=settings,
            grader=timed(self._grader),
            decode=self._decode,
            episodes=episodes,
            name=next(self._names),
            interrupt_check=interrupt_check,
            **own,
        )

    def _drive(
        self,
        step: Step,
        settings: StepSettings,
        sampling: SamplingSettings,
        clock: PhaseClock,
        interrupt_check: Callable[[], None],
        ended: Callable[[ResponsePool], object],
        drafts: Drafts | None,
    ) -> None:
        """Sample and let rest. A method, so that its end leaves no variable that holds a broken engine."""
        is_training = step.stage not in ("eval", "preview")  # else waiting belongs to what it is done for
        driver = self.driver(
            [step],
            sampling,
            settings,
            at_fixed_steps=self.reproducible,
            waiting=lambda: clock.phase("grade") if is_training else nullcontext(),
            report=lambda: clock.report(step.stats.num_drawn, step.num_launched),
            interrupt_check=interrupt_check,
            ended=ended,
            drafts=drafts,
        )
        with clock.phase("rollout" if is_training else step.stage):
            started = time.monotonic()
            list(driver.run(self.engine.opened()))
            step.stats.seconds = time.monotonic() - started
        self.engine.rest()

    def _decode(self, response_ids: Sequence[int]) -> str:
        return self._tokenizer.decode(response_ids, skip_special_tokens=True)


def _vllm() -> Callable[..., RolloutEngine]:
    from ada_lightning.rollout.engines.vllm_engine import VllmEngine

    return VllmEngine
