"""The loop of one rollout: submit, poll, grade, commit in launch order, ask the sampler."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

from ada_lightning.core.protocols import RolloutEngine, Sampler
from ada_lightning.core.records import (
    Belief,
    Completion,
    Generation,
    Grade,
    Prompt,
    RefillProgress,
    Response,
    ResponsePool,
    SamplingSettings,
)
from ada_lightning.rollout.budget import StepBudget
from ada_lightning.rollout.draw_ahead import DrawAhead
from ada_lightning.rollout.engines.errors import guarded
from ada_lightning.rollout.grader import Grader
from ada_lightning.rollout.launcher import Launcher, RequestSeeds
from ada_lightning.rollout.phase_clock import PhaseClock
from ada_lightning.rollout.prompt_run import PromptRun
from ada_lightning.rollout.result import RolloutStats
from ada_lightning.rollout.schedule import Barrier, Schedule
from ada_lightning.rollout.stepwise import StepwiseGrader
from ada_lightning.rollout.tally import Tally
from ada_lightning.rollout.top_up import TopUp

_IDLE_WAIT_S = 0.05  # how long to block on the graders when the engine has nothing to do


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """What stays the same over the collections of a run. Documented at ``RolloutCollector``."""

    decode: Callable[[Sequence[int]], str]
    seed: int
    seed_requests: bool
    positive_threshold: float
    truncated: Literal["grade", "zero", "exclude", "mask"]
    grader_failure: Literal["exclude", "as_zero"]
    failure_alarm_ratio: float
    schedule: Schedule
    is_stepwise: bool = False
    verdict_delay: int = 4


class Collection:
    """State of one rollout on its way; used once.

    Args:
        settings: of the run.
        collection_id: unique in the process; part of every request's name.
        engine: with the weights of ``policy_version`` loaded and nothing in flight.
        grader: reward pool.
        sampler: who gets more.
        sampling: how tokens are drawn.
        stage: part of every seed.
        step: part of every seed.
        policy_version: stamped on every response.
        clock: hears of progress and, in a stage that trains, of seconds spent waiting for graders.
        interrupt_check: called between engine steps; may raise.
        top_up: fills the step up with groups that have a signal; None takes the prompts as they are.
    """

    def __init__(
        self,
        settings: CollectionSettings,
        *,
        collection_id: int,
        engine: RolloutEngine,
        grader: Grader,
        sampler: Sampler,
        sampling: SamplingSettings,
        stage: str,
        step: int,
        policy_version: int,
        clock: PhaseClock,
        interrupt_check: Callable[[], None],
        top_up: TopUp | None = None,
    ) -> None:
        self._settings = settings
        self._id = collection_id
        self._engine = engine
        self._grader: Grader = grader
        if settings.is_stepwise:
            self._grader = StepwiseGrader(grader, delay=settings.verdict_delay, interrupt_check=interrupt_check)
        self._sampler = sampler
        # A prompt's next round may start only when every prompt's last one is graded.
        self._waits_for_all = isinstance(settings.schedule, Barrier) or sampler.num_stages > 1
        self._max_new_tokens = sampling.max_new_tokens
        self._step = step
        self._policy_version = policy_version
        self._clock = clock
        self._counts_grading = stage not in ("eval", "preview")  # there it belongs to what it is done for
        self._interrupt_check = interrupt_check
        seeds = RequestSeeds(settings.seed, stage, step, settings.seed_requests)
        self._launcher = Launcher(engine, sampling, seeds, name=str(collection_id))
        self._grading: dict[tuple[int, int, int, int], tuple[PromptRun, int, Generation, str]] = {}
        self._at_barrier: list[PromptRun] = []
        self._stage = 0
        self._tally = Tally()
        self._ahead = DrawAhead(settings.schedule, sampler, self._launcher, self._tally, self._count_known)
        self._runs: dict[int, PromptRun] = {}
        self._budget = StepBudget(sampler.budget_per_step, sampler.samples_per_round, ())
        self._top_up = top_up
        # Where what one prompt gets depends on the others, a wave is planned by itself, when the last one is complete.
        self._waves_overlap = sampler.plans_nothing and not self._waits_for_all
        self._wave_start = 0
        self._num_open = 0
        self._num_signal = 0
        self.num_prompts = 0
        """Prompts that took part, those without room in the engine included."""

    def run(self, prompts: Sequence[Prompt], beliefs: Sequence[Belief]) -> list[ResponsePool]:
        """Return the complete pools of all prompts that fit."""
        try:
            self._admit(prompts, beliefs)
            self._fill_up()
            self._launcher.fill_slots()
            while self._grading or not self._launcher.is_idle or self._at_barrier:
                for generation in guarded(self._engine.poll):
                    self._receive(generation)
                for ticket, grade in self._verdicts():
                    self._commit(ticket, grade)
                self._pass_barrier()
                self._fill_up()
                self._ahead.fill(self._engine.max_num_seqs)
                self._launcher.fill_slots()
                self._clock.report(self._tally.num_drawn, self._launcher.num_launched)
                self._interrupt_check()
        except BaseException:
            self._grading.clear()
            self._grader.discard_pending()
            self._launcher.drop_all()
            raise
        return [run.pool for run in self._runs.values()]

    def _verdicts(self) -> list[tuple[Any, Grade]]:
        """Take what the graders have; wait for them only when the engine has nothing left to do."""
        if not self._launcher.is_idle:
            return self._grader.poll()
        if not self._grading:
            return []
        with self._clock.phase("grade") if self._counts_grading else nullcontext():
            return self._grader.wait(_IDLE_WAIT_S)

    def stats(self, *, num_skipped: int, seconds: float) -> RolloutStats:
        """Counts of the finished collection; alarms when too many grades failed."""
        tally = self._tally
        if tally.num_drawn and tally.num_failed / tally.num_drawn > self._settings.failure_alarm_ratio:
            warnings.warn(
                f"{tally.num_failed} of {tally.num_drawn} responses could not be graded: {dict(tally.failures)}; "
                f"{tally.num_failed_excluded} of them are left out, the others count as 0. Check the reward function.",
                RuntimeWarning,
                stacklevel=3,
            )
        return RolloutStats(
            num_prompts=len(self._runs),
            num_drawn=tally.num_drawn,
            num_failed=tally.num_failed,
            num_failed_excluded=tally.num_failed_excluded,
            num_truncated=tally.num_truncated,
            num_empty=tally.num_empty,
            num_skipped_prompts=num_skipped,
            generated_tokens=tally.generated_tokens,
            wasted_tokens=tally.wasted_tokens,
            num_cache_hits=tally.num_cache_hits,
            failures=dict(tally.failures),
            failure_details=dict(tally.failure_details),
            seconds=seconds,
        )

    def _admit(self, prompts: Sequence[Prompt], beliefs: Sequence[Belief]) -> None:
        """Let prompts take part: those of the step, or a wave that fills it up."""
        room = self._engine.max_model_tokens - self._max_new_tokens
        wave: list[PromptRun] = []
        self._wave_start = self.num_prompts
        self.num_prompts += len(prompts)
        for slot, (prompt, belief) in enumerate(zip(prompts, beliefs, strict=True), start=self._wave_start):
            if len(prompt.prompt_ids) > room:
                warnings.warn(
                    f"prompt {prompt.prompt_id} has {len(prompt.prompt_ids)} tokens, the engine has room for {room}: "
                    "skipped. Lower data.max_prompt_tokens or raise rollout.max_model_tokens.",
                    RuntimeWarning,
                    stacklevel=4,
                )
                continue
            self._runs[slot] = PromptRun(ResponsePool(prompt, slot, step=self._step, belief=belief))
            wave.append(self._runs[slot])
        self._stage = 0
        if wave:
            self._sampler.plan([run.pool for run in wave])
        self._budget.join([run.pool.slot for run in wave])
        self._num_open += len(wave)
        for run in wave:
            self._settle(run)

    def _fill_up(self) -> None:
        """Let further prompts join as soon as it is certain that they are wanted."""
        while self._top_up is not None and (self._waves_overlap or self._num_open == 0):
            num_more = self._top_up.refill.next_wave(
                RefillProgress(
                    num_wanted=self._top_up.num_wanted,
                    num_signal=self._num_signal,
                    num_open=self._num_open,
                    num_drawn=self.num_prompts,
                )
            )
            joining = self._top_up.draw(self.num_prompts, num_more) if num_more > 0 else ()
            if not joining:
                return
            self._admit([prompt for prompt, _ in joining], [belief for _, belief in joining])

    def _settle(self, run: PromptRun) -> None:
        """Commit what is complete, and go on to the next block as often as the last one is."""
        while True:
            while run.pool.num_drawn < len(run.round_of) and run.pool.num_drawn in run.graded:
                index = run.pool.num_drawn
                self._commit_one(run, index, *run.graded.pop(index))
            if run.is_finished or run.is_waiting or run.pool.num_drawn < len(run.round_of):
                return
            if self._waits_for_all and run.round_index >= 0:
                run.is_waiting = True
                self._at_barrier.append(run)
                return
            self._advance(run)

    def _pass_barrier(self) -> None:
        """Let all prompts of a round go on, in their order, once the last of them is graded."""
        if self._at_barrier and self._launcher.is_idle and not self._grading:
            arrived, self._at_barrier = sorted(self._at_barrier, key=lambda run: run.pool.slot), []
            self._stage += 1
            if self._stage < self._sampler.num_stages:
                wave = [run.pool for run in self._runs.values() if run.pool.slot >= self._wave_start]
                self._sampler.plan(wave, self._stage)
            for run in arrived:
                run.is_waiting = False
                self._advance(run)

    def _advance(self, run: PromptRun) -> None:
        """Ask the sampler, which sees only committed responses, and launch what it wants and the budget grants."""
        num_to_draw = self._sampler.num_to_draw(run.pool)
        if num_to_draw > 0:
            run.is_waiting = True
            self._budget.request(run.pool.slot, num_to_draw)
        elif self._stage + 1 < self._sampler.num_stages:
            run.is_waiting = True  # a later stage may want more of it
            self._at_barrier.append(run)
        else:
            self._finish(run)
        for slot, num_granted in self._budget.decide():
            self._runs[slot].is_waiting = False
            if num_granted:
                self._launch_round(self._runs[slot], num_granted)
            else:
                self._finish(self._runs[slot])

    def _finish(self, run: PromptRun) -> None:
        """Note by which rule of counts the pool ended: the sampler's, cut off where something else ended it sooner."""
        pool = run.pool
        end = self._sampler.end(pool)
        if end.rewards is not None:
            self._label(pool, end.rewards)
        rule = end.rule
        if rule is not None and not rule.has_ended([response.is_positive for response in pool.responses]):
            rule = rule.capped(pool.num_sampled)
        pool.rule, pool.is_resolved_by_sampler = rule, end.is_resolved
        pool.inverse_probability = end.inverse_probability
        self._budget.finish(pool.slot)
        run.is_finished = True
        self._num_open -= 1
        self._num_signal += self._top_up is not None and self._top_up.counts(pool)
        self._drop_early_launches(run)

    def _label(self, pool: ResponsePool, rewards: Sequence[float]) -> None:
        """Replace the rewards of a complete pool."""
        pool.responses = [
            replace(response, reward=reward, is_positive=self._is_positive(reward))
            for response, reward in zip(pool.responses, rewards, strict=True)
        ]
        pool.num_positive = sum(response.is_positive for response in pool.responses)
        pool.first_round_rewards = [response.reward for response in pool.responses if response.round_index == 0]

    def _drop_early_launches(self, run: PromptRun) -> None:
        """Abort and forget what was drawn ahead and is not wanted. Drawn again with its own seed, it is the same."""
        unwanted = range(len(run.round_of), run.num_launched)
        if not unwanted:
            return
        grading = [self._grading.pop(self._ticket(run, index), None) for index in unwanted]
        graded = [run.graded.pop(index, None) for index in unwanted]
        generations = [entry[2] for entry in grading if entry] + [entry[0] for entry in graded if entry]
        self._tally.wasted_tokens += sum(len(generation.response_ids) for generation in generations)
        self._tally.wasted_tokens += self._launcher.drop(run, unwanted)
        run.num_launched = len(run.round_of)
        run.num_drops += 1
        self._ahead.note_dropped(run)

    def _ticket(self, run: PromptRun, sample_index: int) -> tuple[int, int, int, int]:
        """Name a response to the graders, who may still be busy with a dropped one of the same number."""
        return self._id, run.pool.slot, sample_index, run.num_drops

    def _count_known(self, run: PromptRun, num_launched: int) -> tuple[int, int, int]:
        """Positives and negatives among the first launched responses, and how many of them are open."""
        ahead = [
            self._reward(generation, grade)
            for index, (generation, _, grade) in run.graded.items()
            if index < num_launched
        ]
        num_positive = sum(reward is not None and self._is_positive(reward) for reward in ahead)
        num_negative = sum(reward is not None and not self._is_positive(reward) for reward in ahead)
        num_open = num_launched - run.pool.num_drawn - len(ahead)
        return run.pool.num_positive + num_positive, run.pool.num_negative + num_negative, num_open

    def _launch_round(self, run: PromptRun, num_to_draw: int) -> None:
        """Ask for a round of responses, of which some may have been drawn ahead."""
        run.round_index += 1
        run.round_of += [run.round_index] * num_to_draw
        self._ahead.note_asked(run, num_to_draw)
        num_missing = len(run.round_of) - run.num_launched
        if num_missing > 0:
            self._launcher.launch(run, num_missing, self._need(run))

    def _need(self, run: PromptRun) -> float:
        """Return how much sooner than others this prompt should get slots; rounds keep the order of the prompts."""
        if self._waits_for_all:
            return 0.0
        return self._sampler.expected_need(run.pool)

    def _receive(self, generation: Generation) -> None:
        """Hand a finished response to the graders."""
        launched = self._launcher.take(generation)
        if launched is None:
            self._tally.wasted_tokens += len(generation.response_ids)
            return
        run, sample_index = launched
        text = self._settings.decode(generation.response_ids)
        ticket = self._ticket(run, sample_index)
        self._grading[ticket] = (run, sample_index, generation, text)
        if generation.is_truncated and self._settings.truncated in ("zero", "exclude"):
            self._commit(ticket, Grade(reward=0.0))
        else:
            finish_reason: Literal["stop", "length"] = "length" if generation.is_truncated else "stop"
            self._grader.submit(ticket, run.pool.prompt, Completion(text, finish_reason, len(generation.response_ids)))

    def _commit(self, ticket: tuple[int, int, int, int], grade: Grade) -> None:
        """Store a verdict and commit the prefix of the launch order that is complete."""
        waiting = self._grading.pop(ticket, None)
        if waiting is None:  # left over from an interrupted collection
            return
        run, sample_index, generation, text = waiting
        run.graded[sample_index] = (generation, text, grade)
        self._ahead.mark_changed(run)
        self._settle(run)
        if self._ahead.is_certainly_unwanted(run):
            self._drop_early_launches(run)

    def _commit_one(self, run: PromptRun, index: int, generation: Generation, text: str, grade: Grade) -> None:
        tally = self._tally
        tally.num_drawn += 1
        tally.num_truncated += generation.is_truncated
        tally.num_empty += not text.strip()
        tally.generated_tokens += len(generation.response_ids)
        tally.num_cache_hits += grade.is_cached
        reward = self._reward(generation, grade)
        if grade.failure:
            tally.num_failed += 1
            tally.num_failed_excluded += reward is None
            tally.failures[grade.failure] += 1
            tally.failure_details.setdefault(grade.failure, grade.detail)
        if reward is None:
            if grade.reward is None:
                run.pool.num_failed += 1
            else:
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
                is_positive=self._is_positive(reward),
                policy_version=self._policy_version,
                is_masked=generation.is_truncated and self._settings.truncated == "mask",
                answer=grade.answer,
                components=grade.components,
            )
        )

    def _reward(self, generation: Generation, grade: Grade) -> float | None:
        """Reward that a response counts with; None where it is no evidence."""
        if grade.reward is None:
            return None if self._settings.grader_failure == "exclude" else 0.0
        if generation.is_truncated and self._settings.truncated == "exclude":
            return None
        return grade.reward

    def _is_positive(self, reward: float) -> bool:
        return reward > self._settings.positive_threshold
