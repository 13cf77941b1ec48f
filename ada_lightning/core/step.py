"""One step of sampling as a state machine: what to draw next, what counts, what is kept. It does no I/O of its own.

Whoever drives it (``rollout/driver.py``, with an engine) generates and grades, in whatever order things finish::

    while not step.is_complete:
        for request in step.ask(num_free, num_slots): ...    # generate and grade
        step.tell(request, outcome)                          # in any order
        for request in step.dropped(): ...                   # no longer wanted: abort it
    groups = step.finish()

A sampler always sees the complete prefix of a prompt's launch order. So the groups are a function of the seeds and of
the outcomes, whatever the order and the schedule. Their distribution is that of the round-based algorithm.
Several steps may be open at once.
"""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Sequence
from dataclasses import replace

from ada_lightning.core.budget import StepBudget
from ada_lightning.core.draw_ahead import DrawAhead
from ada_lightning.core.following import SLOTS, WRITING, FollowUps
from ada_lightning.core.protocols import FollowUp, RefillProgress, Sampler, Selection
from ada_lightning.core.records import (
    Belief,
    Outcome,
    Prompt,
    Request,
    Response,
    ResponseGroup,
    ResponsePool,
)
from ada_lightning.core.schedule import Barrier
from ada_lightning.core.step_records import PromptRun, RolloutResult, RolloutStats, StepSettings
from ada_lightning.core.top_up import Division, TopUp


class Step:
    """Samples every prompt until its sampler says stop, then selects. Used once.

    Args:
        prompts: encoded ones.
        sampler: who gets more.
        selection: what is kept.
        settings: of the run.
        stage: ``train``, ``eval`` or ``preview``: part of every seed.
        step: number of the step, part of every seed.
        policy_version: stamped on every response.
        beliefs: about each prompt's pass rate, in the order of the prompts; none know nothing.
        max_prompt_tokens: a longer prompt is skipped, counted and warned about; None takes all.
        top_up: fills the step up with groups that have a signal; the others keep nothing, and the selection does not
            see them. None: all prompts count alike.
        follow_up: draws prompts again with a hint, as further groups of the step. None: none is.
        first_slot: of the first prompt, part of its seeds.

    Raises:
        ValueError: a step that is filled up or has hints, and a sampler with a budget for all of its prompts; or both.
    """

    def __init__(
        self,
        prompts: Sequence[Prompt],
        *,
        sampler: Sampler,
        selection: Selection,
        settings: StepSettings,
        stage: str = "train",
        step: int = 0,
        policy_version: int = 0,
        beliefs: Sequence[Belief] = (),
        max_prompt_tokens: int | None = None,
        top_up: TopUp | None = None,
        follow_up: FollowUp | None = None,
        first_slot: int = 0,
    ) -> None:
        if top_up is not None and sampler.budget_per_step:
            raise ValueError(
                f"sampler.budget_per_step = {sampler.budget_per_step} divides a step among its prompts, but refill "
                "lets further ones join; use refill.max_ratio to limit a step, and sampler.budget_per_step=0"
            )
        if top_up is not None and follow_up is not None:
            raise ValueError("refill and hints both add groups to a step; use refill=none or hints=none")
        self.stage, self.step, self.policy_version = stage, step, policy_version
        self.division: Division | None = None
        """What became of the groups of a finished step that was filled up."""
        self.stats = RolloutStats()
        """Counts so far."""
        self.num_launched = 0
        """Responses asked for so far, those that wait for a slot included."""
        self._sampler, self._selection, self._settings = sampler.frozen(), selection, settings
        self._max_prompt_tokens, self._top_up = max_prompt_tokens, top_up
        self._is_barrier = isinstance(settings.schedule, Barrier)
        self._ahead = DrawAhead(settings, self._sampler, self.stats)
        self._follow_ups = None if follow_up is None else FollowUps(follow_up, self._sampler, max_prompt_tokens)
        self._budget = StepBudget(sampler.budget_per_step, sampler.samples_per_round, ())
        self._runs: dict[int, PromptRun] = {}
        self._waiting: list[tuple[float, int, int, int]] = []
        """Heap of (-need, number of the push, slot, sample index): the greatest need first, then in order.
        Responses wait here and not in an engine, which would serve them in the order they came in."""
        self._open: dict[tuple[int, int], Request] = {}
        """Asked for and not told yet, by (slot, sample index)."""
        self._dropped: list[Request] = []
        self._ended: list[ResponsePool] = []
        self._at_barrier: list[PromptRun] = []
        self._next_slot = self._wave_start = first_slot
        self._stage_index = self._num_unfinished = self._num_signal = self._num_pushed = 0
        self._admit(prompts, beliefs or [Belief()] * len(prompts))
        self._go_on()

    @property
    def is_complete(self) -> bool:
        """Whether every pool is complete."""
        return self._num_unfinished == 0

    @property
    def num_open(self) -> int:
        """Pools that are not complete."""
        return self._num_unfinished

    @property
    def num_waiting(self) -> int:
        """Responses wanted that nobody has been asked for yet."""
        return len(self._waiting)

    def ask(self, num_free: int | None = None, num_slots: int = 0) -> list[Request]:
        """Return what to generate now, the greatest need first.

        Args:
            num_free: requests that can start now; None: any number.
            num_slots: sequences that run at once, of which the others are taken. Where some would stay free, blocks are
                drawn ahead that will probably be wanted; 0: none.
        """
        num_running = num_slots - (num_slots if num_free is None else num_free)
        while num_slots and (run := self._ahead.best(len(self._waiting) + num_running, num_slots)) is not None:
            self._launch(run, self._sampler.samples_per_round, need=0.0)
        number = len(self._waiting) if num_free is None else min(max(num_free, 0), len(self._waiting))
        if number == len(self._waiting):
            taken, self._waiting = sorted(self._waiting), []
        else:
            taken = [heapq.heappop(self._waiting) for _ in range(number)]
        return [self._hand_out(slot, index) for _, _, slot, index in taken]

    def tell(self, request: Request, outcome: Outcome) -> None:
        """Take what became of a request. One that was dropped meanwhile changes nothing."""
        place = request.slot, request.sample_index
        known = self._open.get(place)
        if known is None or known.attempt != request.attempt:
            return
        del self._open[place]
        run = self._runs[request.slot]
        num_unfinished = self._num_unfinished
        if request.sample_index == WRITING:
            self._take_hint(run, outcome)
        else:
            self._take(run, request.sample_index, outcome)
        if self._at_barrier or self._num_unfinished < num_unfinished:
            self._go_on()

    def _take(self, run: PromptRun, sample_index: int, outcome: Outcome) -> None:
        # Outcomes may overtake each other; a pool only ever sees launches 0, 1, 2, ... (`_settle`), so that quick
        # responses, which tend to be right or short, are not over-represented in what a sampler decides on.
        run.told[sample_index] = outcome
        self._ahead.mark_changed(run)
        self._settle(run)
        if self._ahead.is_certainly_unwanted(run):
            self._drop_early_launches(run)

    def dropped(self) -> list[Request]:
        """Return requests that are no longer wanted, each once: drawn ahead of a prompt that then stopped."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def ended(self) -> list[ResponsePool]:
        """Return pools that became complete since the last call, as they did. Nothing changes in them any more."""
        ended, self._ended = self._ended, []
        return ended

    def note_wasted(self, num_tokens: int) -> None:
        """Count tokens that were generated for dropped requests: drawing ahead keeps to a share of them."""
        self.stats.wasted_tokens += num_tokens

    def ask_again(self, requests: Sequence[Request]) -> None:
        """Let requests be asked for once more, before all others, as those that were lost with an engine."""
        for request in requests:
            place = request.slot, request.sample_index
            if (known := self._open.get(place)) is not None and known.attempt == request.attempt:
                del self._open[place]
                self._push(*place, need=float("inf"))

    def finish(self) -> tuple[ResponseGroup, ...]:
        """Select from the complete pools.

        Returns:
            One group per prompt that was not skipped, in the order of the prompts; behind them those with a hint.

        Raises:
            RuntimeError: pools are open.
        """
        if not self.is_complete:
            raise RuntimeError(
                f"step {self.step} has {self._num_unfinished} open pools; call tell() for everything that it asked for"
            )
        pools = [self._runs[slot].pool for slot in sorted(self._runs)]
        trained: Sequence[ResponsePool] = pools
        surplus: set[int] = set()
        if self._top_up is not None:
            # Of a step that is filled up, the first `num_wanted` groups with a signal in the order of the prompts
            # train, not the first to finish: each is an independent draw from the prompts that have one.
            self.division = self._top_up.divide(pools)
            trained, surplus = self.division.trained, {pool.slot for pool in self.division.surplus}
        kept_of = dict(zip((pool.slot for pool in trained), self._selection.select_all(trained), strict=True))
        return tuple(ResponseGroup(pool, kept_of.get(pool.slot, ()), is_surplus=pool.slot in surplus) for pool in pools)

    def result(self) -> RolloutResult:
        """Return what a rollout hands on: the groups of :meth:`finish`, and its counts.

        Raises:
            RuntimeError: pools are open.
        """
        return RolloutResult(self.step, self.policy_version, self.finish(), self.stats, self.division)

    @property
    def responses(self) -> list[Response]:
        """Those that count so far, of all prompts."""
        return [response for run in self._runs.values() for response in run.pool.responses]

    def is_ended(self, slot: int) -> bool:
        """Whether a prompt's pool is complete."""
        return slot in self._runs and self._runs[slot].is_finished

    def outcomes(self, slot: int) -> dict[int, Outcome]:
        """Return all that was told of a prompt, by sample index, whatever it counts as."""
        return dict(self._runs[slot].told) if slot in self._runs else {}

    def _admit(self, prompts: Sequence[Prompt], beliefs: Sequence[Belief]) -> None:
        """Let prompts take part: those of the step, or a wave that fills it up."""
        self._wave_start, self._stage_index = self._next_slot, 0
        wave: list[PromptRun] = []
        for prompt, belief in zip(prompts, beliefs, strict=True):
            slot, self._next_slot = self._next_slot, self._next_slot + 1
            if self._max_prompt_tokens is not None and len(prompt.prompt_ids) > self._max_prompt_tokens:
                self.stats.num_skipped_prompts += 1
                warnings.warn(
                    f"prompt {prompt.prompt_id} has {len(prompt.prompt_ids)} tokens, the engine has room for "
                    f"{self._max_prompt_tokens}: skipped. Lower data.max_prompt_tokens or raise "
                    "rollout.max_model_tokens.",
                    RuntimeWarning,
                    stacklevel=3,
                )
                continue
            self._runs[slot] = PromptRun(ResponsePool(prompt, slot, step=self.step, belief=belief))
            wave.append(self._runs[slot])
        if wave:
            self._sampler.plan([run.pool for run in wave])
        self._budget.join([run.pool.slot for run in wave])
        if self._follow_ups is not None:
            self._follow_ups.join([run.pool.slot for run in wave])
        self._num_unfinished += len(wave)
        self.stats.num_prompts += len(wave)
        for run in wave:
            self._settle(run)

    def _draw_again(self) -> None:
        """Begin the groups with a hint that are certain by now: what is believed of bare prompts says nothing there."""
        for slot, prompt in self._follow_ups.decide() if self._follow_ups is not None else ():
            self._runs[slot] = PromptRun(ResponsePool(prompt, slot, step=self.step))
            self._num_unfinished += 1
            if prompt.hint is not None and prompt.hint.max_new_tokens:
                self._push(slot, WRITING, need=float(self._sampler.most_per_prompt))  # a whole group waits for it
            else:
                self._settle(self._runs[slot])

    def _take_hint(self, run: PromptRun, outcome: Outcome) -> None:
        """Begin the group for which the policy has written a hint; of one that is refused nothing is drawn."""
        pool, reward = run.pool, outcome.grade.reward
        assert self._follow_ups is not None
        assert pool.prompt.hint is not None
        self.stats.generated_tokens += outcome.num_tokens
        self.stats.written_tokens += outcome.num_tokens
        bare = self._runs[pool.slot - SLOTS].pool.prompt
        is_right = None if reward is None else self._settings.is_positive(reward)
        pool.prompt = self._follow_ups.written(bare, pool.prompt.hint, outcome, is_right=is_right)
        assert pool.prompt.hint is not None
        if pool.prompt.hint.refused:
            run.is_finished = True
            self._num_unfinished -= 1
        else:
            self._settle(run)

    def _go_on(self) -> None:
        """Pass what all prompts, or the next wave, have waited for."""
        while self._pass_barrier() or self._fill_up():
            continue

    def _fill_up(self) -> bool:
        """Let further prompts join as soon as it is certain that they are wanted; whether any did."""
        # Where what one prompt gets depends on the others, a wave is planned by itself, when the last one is complete.
        waves_overlap = self._sampler.plans_nothing and not self._is_barrier
        if self._top_up is None or not (waves_overlap or self.is_complete):
            return False
        num_drawn = self.stats.num_prompts + self.stats.num_skipped_prompts
        progress = RefillProgress(
            num_wanted=self._top_up.num_wanted,
            num_signal=self._num_signal,
            num_open=self._num_unfinished,
            num_drawn=num_drawn,
        )
        num_more = self._top_up.refill.next_wave(progress)
        joining = self._top_up.draw(num_drawn, num_more) if num_more > 0 else ()
        self._admit([prompt for prompt, _ in joining], [belief for _, belief in joining])
        return bool(joining)

    def _settle(self, run: PromptRun) -> None:
        """Commit what is complete, and go on to the next block as often as the last one is."""
        while True:
            while run.pool.num_drawn < len(run.round_of) and run.pool.num_drawn in run.told:
                self._commit(run, run.told[run.pool.num_drawn])
            if run.is_finished or run.is_waiting or run.pool.num_drawn < len(run.round_of):
                return
            if run.round_index >= 0 and (self._is_barrier or self._has_stages_left):
                run.is_waiting = True
                self._at_barrier.append(run)
                return
            self._advance(run)

    @property
    def _has_stages_left(self) -> bool:
        return self._stage_index + 1 < self._sampler.num_stages

    def _pass_barrier(self) -> bool:
        """Let all prompts of a round or stage go on, in their order, once the last of them is there; whether it did."""
        if not self._at_barrier or self._open or self._waiting:
            return False
        arrived, self._at_barrier = sorted(self._at_barrier, key=lambda run: run.pool.slot), []
        if self._has_stages_left:
            self._stage_index += 1
            wave = [run.pool for slot, run in self._runs.items() if slot >= self._wave_start]
            self._sampler.plan(wave, self._stage_index)
        for run in arrived:
            run.is_waiting = False
            self._advance(run)
        return True

    def _advance(self, run: PromptRun) -> None:
        """Ask the sampler, which sees only committed responses, and launch what it wants and the budget grants."""
        num_to_draw = self._sampler.num_to_draw(run.pool)
        if num_to_draw > 0:
            run.is_waiting = True
            self._budget.request(run.pool.slot, num_to_draw)
        elif self._has_stages_left:
            run.is_waiting = True  # a later stage may want more of it
            self._at_barrier.append(run)
        else:
            self._end(run)
        for slot, num_granted in self._budget.decide():
            self._runs[slot].is_waiting = False
            if num_granted:
                self._launch_round(self._runs[slot], num_granted)
            else:
                self._end(self._runs[slot])

    def _end(self, run: PromptRun) -> None:
        """Note by which rule of counts the pool ended: the sampler's, cut off where something else ended it sooner."""
        pool = run.pool
        end = self._sampler.end(pool)
        if end.rewards is not None:
            self._replace_rewards(pool, end.rewards)
        # A budget or a failing grader may end a pool before its rule does. Counting the paths of the rule that really
        # ended it, stops(P, Q) or P + Q = num_sampled, keeps the exact estimator exact for what was drawn.
        rule = end.rule
        if rule is not None and not rule.has_ended([response.is_positive for response in pool.responses]):
            rule = rule.capped(pool.num_sampled)
        pool.rule, pool.is_resolved_by_sampler = rule, end.is_resolved
        pool.inverse_probability = end.inverse_probability
        self._budget.finish(pool.slot)
        run.is_finished = True
        self._ended.append(pool)
        self._num_unfinished -= 1
        self._num_signal += self._top_up is not None and self._top_up.counts(pool)
        self._drop_early_launches(run)
        if self._follow_ups is not None and not pool.hint:
            self._follow_ups.end(pool)
            self._draw_again()

    def _replace_rewards(self, pool: ResponsePool, rewards: Sequence[float]) -> None:
        """Put a complete pool's labels in the place of what graders said."""
        pool.responses = [
            replace(response, reward=reward, is_positive=self._settings.is_positive(reward))
            for response, reward in zip(pool.responses, rewards, strict=True)
        ]
        pool.num_positive = sum(response.is_positive for response in pool.responses)
        pool.first_round_rewards = [response.reward for response in pool.responses if response.round_index == 0]

    def _launch_round(self, run: PromptRun, num_to_draw: int) -> None:
        """Want a round of responses, of which some may have been drawn ahead."""
        run.round_index += 1
        run.round_of += [run.round_index] * num_to_draw
        if self._follow_ups is not None and not run.pool.hint:
            self._follow_ups.num_wanted += num_to_draw
        self._ahead.note_asked(run, num_to_draw)
        num_missing = len(run.round_of) - run.num_launched
        if num_missing > 0:
            in_order = self._is_barrier or self._sampler.num_stages > 1
            self._launch(run, num_missing, 0.0 if in_order else self._sampler.expected_need(run.pool))

    def _launch(self, run: PromptRun, num_responses: int, need: float) -> None:
        for _ in range(num_responses):
            self._push(run.pool.slot, run.num_launched, need)
            run.num_launched += 1
            self.num_launched += 1

    def _push(self, slot: int, sample_index: int, need: float) -> None:
        self._num_pushed += 1
        heapq.heappush(self._waiting, (-need, self._num_pushed, slot, sample_index))

    def _hand_out(self, slot: int, sample_index: int) -> Request:
        run, prompt = self._runs[slot], self._runs[slot].pool.prompt
        seed = self._settings.request_seed(self.stage, self.step, slot, prompt.prompt_id, sample_index)
        is_ahead = sample_index >= len(run.round_of)
        if sample_index == WRITING and prompt.hint is not None:
            limit: int | None = prompt.hint.max_new_tokens
        else:
            cut = self._sampler.cut(run.pool, sample_index)
            limit = cut.num_tokens if cut is not None and not cut.goes_on else None
        request = Request(slot, prompt, sample_index, seed, is_ahead, run.num_drops, self.step, limit)
        self._open[slot, sample_index] = request
        return request

    def _drop_early_launches(self, run: PromptRun) -> None:
        """Forget what was drawn ahead and is not wanted. Drawn again with its own seed, it is the same."""
        slot, unwanted = run.pool.slot, range(len(run.round_of), run.num_launched)
        if not unwanted:
            return
        self._waiting = [entry for entry in self._waiting if entry[2] != slot or entry[3] not in unwanted]
        heapq.heapify(self._waiting)
        for index in unwanted:
            if (request := self._open.pop((slot, index), None)) is not None:
                self._dropped.append(request)
            if (outcome := run.told.pop(index, None)) is not None:
                self.stats.wasted_tokens += outcome.num_tokens
        run.num_launched = len(run.round_of)
        run.num_drops += 1
        self._ahead.note_dropped(run)

    def _commit(self, run: PromptRun, outcome: Outcome) -> None:
        """Add the response whose turn in the launch order has come to the pool, or to what is no evidence."""
        pool, stats, grade, index = run.pool, self.stats, outcome.grade, run.pool.num_drawn
        num_tokens = outcome.num_tokens
        stats.num_drawn += 1
        stats.generated_tokens += num_tokens
        if pool.hint:
            stats.num_hinted += 1
            stats.hinted_tokens += num_tokens
        cut = self._sampler.cut(pool, index)
        is_long = cut is not None and num_tokens + outcome.is_truncated > cut.num_tokens
        if cut is not None and not cut.goes_on:
            stats.num_limited += 1
            if is_long:
                stats.num_cut += 1
                pool.num_cut += 1
                pool.num_drawn += 1
                return
        stats.num_truncated += outcome.is_truncated
        stats.num_empty += not outcome.text.strip()
        stats.num_cache_hits += grade.is_cached
        reward = self._settings.reward(outcome)
        if grade.failure:
            stats.note_failure(grade.failure, grade.detail, is_excluded=reward is None)
        if reward is None:  # counts as drawn, so budgets end, and is neither right nor wrong
            pool.num_failed += grade.reward is None
            pool.num_truncated_excluded += grade.reward is not None
            pool.num_drawn += 1
            return
        add = pool.add if cut is None or cut.goes_on else pool.add_short
        add(
            Response(
                prompt_id=pool.prompt.prompt_id,
                sample_index=index,
                round_index=run.round_of[index],
                response_ids=outcome.response_ids,
                sampling_logprobs=outcome.sampling_logprobs,
                text=outcome.text,
                is_truncated=outcome.is_truncated,
                reward=reward,
                is_positive=self._settings.is_positive(reward),
                policy_version=self.policy_version,
                is_masked=outcome.is_truncated and self._settings.truncated == "mask",
                answer=grade.answer,
                components=grade.components,
                inverse_probability=1.0 / cut.survival if cut is not None and is_long else 1.0,
                episode=outcome.episode,
            )
        )
