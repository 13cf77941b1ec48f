"""Drives steps with an engine and graders: submit, poll, grade, tell, until every step is complete."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ada_lightning.core.protocols import RolloutEngine, VersionedEngine
from ada_lightning.core.records import Outcome, Request, ResponsePool, SamplingSettings, Verdict
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.rollout.drafts import Drafts
from ada_lightning.rollout.engines.errors import EngineError, guarded
from ada_lightning.rollout.episodes.open_episodes import OpenEpisodes
from ada_lightning.rollout.grader import Grader
from ada_lightning.rollout.probe import OpenProbe, Probe

_IDLE_WAIT_S = 0.05  # how long to block on the graders when the engine has nothing to do
_MAX_UNGRADED = 8
"""Engines full of responses that may wait for the graders before another step is opened."""

_Place = tuple[str, int, int, int]


class Driver:
    """Keeps one engine full with what steps ask for, the oldest step first.

    A step is opened when slots are left, so that any number of steps can be given by an iterator: the engine runs empty
    once, at the end of the last one.

    Args:
        steps: not asked for anything yet; of several that are open at once, numbers or slots differ. None: there is
            none now, and what gave it is asked again as long as others are open.
        sampling: how tokens are drawn.
        settings: of the steps.
        grader: reward pool.
        decode: token ids to text.
        episodes: where responses have turns, takes them to environments; None: each is a single turn.
        drafts: guesses at responses, by prompt and sample index, for an engine that takes them.
        name: unique in the process; part of every request's name.
        by_version: have the engine, a :class:`~ada_lightning.core.protocols.VersionedEngine`, sample each step from its
            own policy version. What waits for a version takes no slot from older ones.
        probe_of: what is to be drawn first with the version of a step, which is not complete before.
        outlives_engine: go on after an :class:`EngineError` with another engine, which draws again what was in flight.
        waiting: a context for the seconds spent waiting for graders.
        ended: called with each pool that has become complete, while its step goes on.
        report: called after every engine step.
        interrupt_check: called after every engine step; may raise.
    """

    def __init__(
        self,
        steps: Iterable[Step | None],
        *,
        sampling: SamplingSettings,
        settings: StepSettings,
        grader: Grader,
        decode: Callable[[Sequence[int]], str],
        episodes: OpenEpisodes | None = None,
        drafts: Drafts | None = None,
        name: str = "0",
        by_version: bool = False,
        probe_of: Callable[[Step], Probe | None] = lambda step: None,
        outlives_engine: bool = False,
        waiting: Callable[[], AbstractContextManager[Any]] = nullcontext,
        ended: Callable[[ResponsePool], object] = lambda pool: None,
        report: Callable[[], None] = lambda: None,
        interrupt_check: Callable[[], None] = lambda: None,
    ) -> None:
        self.num_generated = 0
        """Responses that the engine returned."""
        self.num_tokens = 0
        """Tokens of them."""
        self._to_open = iter(steps)
        self._sampling, self._settings = sampling, settings
        self._grader, self._decode, self._episodes, self._name = grader, decode, episodes, name
        self._drafts = drafts or {}
        self._by_version, self._probe_of, self._outlives_engine = by_version, probe_of, outlives_engine
        self._waiting, self._ended = waiting, ended
        self._report, self._interrupt_check = report, interrupt_check
        self._open: list[Step] = []
        self._generating: dict[str, tuple[Step, Request]] = {}
        self._grading: dict[_Place, tuple[Step, Request, Outcome]] = {}
        self._unwanted: dict[Step, list[str]] = {}
        """What the engine still generates and no step wants, by step."""
        self._probes: dict[Step, OpenProbe] = {}
        """By step, those that are not over."""

    def run(self, engine: RolloutEngine) -> Generator[Step, None, None]:
        """Yield each step as it becomes complete, by an engine with nothing in flight.

        Raises:
            EngineError: the engine failed, or whoever took a step found that it had, and throws that. What ends this
                leaves nothing in flight.
        """
        try:
            for step, probe in self._probes.items():  # of an engine that was lost
                probe.submit(self._submitter(engine, step))
            while self._fill_slots(engine):
                for generated in guarded(engine.poll):
                    self._receive(generated)
                self._take_turns(engine.max_model_tokens)
                for place, grade in self._verdicts():
                    self._grade(place, grade)
                self._abort_unwanted(engine)
                yield from self._complete()
                self._report()
                self._interrupt_check()
            yield from self._complete()
        except EngineError:
            if not self._outlives_engine:
                self._leave(engine)
                raise
            for step, request in self._generating.values():
                step.ask_again([request])
                if self._episodes is not None:  # drawn again from its first turn
                    self._episodes.drop(self._place(request))
            self._generating.clear()
            self._unwanted.clear()
            raise
        except BaseException:
            self._leave(engine)
            raise

    def _fill_slots(self, engine: RolloutEngine) -> bool:
        """Submit what has a slot; whether anything is left to do.

        Raises:
            RuntimeError: a step is not complete, and asks for nothing.
        """
        num_slots, max_ungraded = engine.max_num_seqs, _MAX_UNGRADED * engine.max_num_seqs
        self._submit_turns(engine)
        for step in self._open:
            if (num_free := num_slots - self._num_before(step)) <= 0:
                break
            if step.num_waiting or len(self._open) == 1:  # one of several draws nothing ahead
                self._submit(engine, step, num_free, num_slots)
        while len(self._generating) < num_slots and self._num_out < max_ungraded:
            if (opened := next(self._to_open, None)) is None:
                break
            self._open.append(opened)
            if (probe := self._probe_of(opened)) is not None:
                self._probes[opened] = OpenProbe(probe, f"{self._name}.{opened.step}/canary")
                self._probes[opened].submit(self._submitter(engine, opened))
            self._submit(engine, opened, num_slots - len(self._generating), 0)  # nothing ahead before what is wanted
        if self._generating or self._num_out or self._probes:
            return True
        if stuck := [step for step in self._open if not step.is_complete]:
            raise RuntimeError(
                f"step {stuck[0].step} is not complete, but its sampler asks for no response and would wait for ever"
            )
        return False

    def _num_before(self, step: Step) -> int:
        """Requests that take a slot from a step: those of younger versions may be waiting for this one's end."""
        if not self._by_version:
            return len(self._generating)
        return sum(other.policy_version <= step.policy_version for other, _ in self._generating.values())

    def _submitter(self, engine: RolloutEngine, step: Step) -> Callable[..., None]:
        if not self._by_version:
            return engine.submit
        return partial(cast(VersionedEngine, engine).submit, policy_version=step.policy_version)

    def _submit(self, engine: RolloutEngine, step: Step, num_free: int, num_slots: int) -> None:
        self._launch(engine, [(step, request) for request in step.ask(num_free, num_slots)])

    def _limited(self, request: Request) -> SamplingSettings:
        """How a request's tokens are drawn, which may be cut before the run's own limit."""
        if request.max_new_tokens is None:
            return self._sampling
        return replace(self._sampling, max_new_tokens=min(self._sampling.max_new_tokens, request.max_new_tokens))

    def _launch(self, engine: RolloutEngine, asked: Sequence[tuple[Step, Request]]) -> None:
        # First: an engine that breaks here owes these too.
        self._generating |= {self._request_id(request): (step, request) for step, request in asked}
        for step, request in asked:
            submit = self._submitter(engine, step)
            draft = self._drafts.get((request.prompt.prompt_id, request.sample_index))
            options = {"draft": draft} if draft else {}
            guarded(submit, self._request_id(request), request.ids, self._limited(request), request.seed, **options)

    @property
    def _num_out(self) -> int:
        """Responses that wait for somebody else than the engine."""
        return len(self._grading) + (self._episodes.num_open if self._episodes is not None else 0)

    def _submit_turns(self, engine: RolloutEngine) -> None:
        """Give episodes that go on a slot before new ones: the engine still has their prefixes."""
        if self._episodes is None:
            return
        # Requests of younger versions may fill all slots until these episodes have ended.
        num_free = engine.max_num_seqs - (0 if self._by_version else len(self._generating))
        self._launch(engine, self._episodes.take_ready(num_free))

    def _take_turns(self, max_model_tokens: int) -> None:
        """Go on with episodes whose environment has answered; wait for one only when nothing else is left to do."""
        if self._episodes is None:
            return
        is_busy = self._generating or self._episodes.num_ready or any(step.num_waiting for step in self._open)
        wait_s = 0.0 if is_busy or not self._episodes.num_at_environment else _IDLE_WAIT_S
        for step, request, outcome, is_graded in self._episodes.receive(max_model_tokens, wait_s):
            self._ask_grader(step, request, outcome, is_graded=is_graded)

    def _receive(self, generated: Outcome) -> None:
        """Hand a finished response to the graders, and a turn of an episode to its environment."""
        if any(probe.take(generated) for probe in self._probes.values()):
            self._probes = {step: probe for step, probe in self._probes.items() if not probe.is_over}
            return
        found = self._generating.pop(generated.request_id, None)
        if found is None:  # dropped, because of one that finished in the same poll
            for only in self._open[:1]:  # steps of which several are open draw nothing ahead
                only.note_wasted(len(generated.response_ids))
            return
        step, request = found
        self.num_tokens += len(generated.response_ids)
        outcome = replace(generated, text=self._decode(generated.response_ids))
        if self._episodes is not None:
            self._episodes.note_turn(self._place(request), step, request, outcome)
        else:
            self._ask_grader(step, request, outcome)

    def _ask_grader(self, step: Step, request: Request, outcome: Outcome, *, is_graded: bool = False) -> None:
        """Have a response graded that has no grade from its environment."""
        place = self._place(request)
        self.num_generated += 1
        self._grading[place] = step, request, outcome
        is_cut_short = (request.max_new_tokens or math.inf) < self._sampling.max_new_tokens
        if not self._settings.asks_grader(is_truncated=outcome.is_truncated, is_cut_short=is_cut_short):
            self._grade(place, Verdict(reward=0.0))
        elif is_graded:
            self._grade(place, outcome.grade)
        else:
            self._grader.submit(place, request.prompt, outcome.completion_of(request.prompt))

    def _verdicts(self) -> list[tuple[Any, Verdict]]:
        """Take what the graders have; wait for them only when the engine has nothing left to do."""
        is_turning = self._episodes is not None and self._episodes.num_open
        if self._generating or is_turning or any(step.num_waiting for step in self._open):
            return self._grader.poll()
        if not self._grading:
            return []
        with self._waiting():
            return self._grader.wait(_IDLE_WAIT_S)

    def _grade(self, place: _Place, grade: Verdict) -> None:
        """Tell a step of a verdict, and drop what it no longer wants.

        Asks nothing of the engine, which may fail: the verdicts that came with this one are told first.
        """
        waiting = self._grading.pop(place, None)
        if waiting is None:  # of a response that was dropped, or left over from an interrupted rollout
            return
        step, request, outcome = waiting
        step.tell(request, replace(outcome, grade=grade))
        unwanted = step.dropped()
        names = map(self._request_id, unwanted)
        if running := [name for name in names if self._generating.pop(name, None)]:
            self._unwanted.setdefault(step, []).extend(running)
        for dropped in unwanted:
            if graded := self._grading.pop(self._place(dropped), None):
                step.note_wasted(graded[2].num_tokens)
            if self._episodes is not None:
                step.note_wasted(self._episodes.drop(self._place(dropped)))

    def _abort_unwanted(self, engine: RolloutEngine) -> None:
        while self._unwanted:
            step, names = self._unwanted.popitem()
            step.note_wasted(guarded(engine.abort, names))

    def _complete(self) -> Iterator[Step]:
        """Let go of complete steps, one after another: where an engine is lost then, the next ones are still here."""
        for step in self._open:
            for pool in step.ended():
                self._ended(pool)
        for step in [each for each in self._open if each.is_complete and each not in self._probes]:
            self._open.remove(step)
            yield step

    def _leave(self, engine: RolloutEngine) -> None:
        """Leave nothing in flight after an interrupt or an error; warn where the engine does not let go."""
        leftovers = [
            *self._generating,
            *(name for names in self._unwanted.values() for name in names),
            *(name for probe in self._probes.values() for name in probe.in_flight),
        ]
        self._generating.clear()
        self._unwanted.clear()
        self._probes.clear()
        self._grading.clear()
        self._grader.discard_pending()
        if self._episodes is not None:
            self._episodes.clear()
        try:
            engine.abort(leftovers)
        except Exception as error:
            warnings.warn(f"the engine did not abort its requests: {error}", RuntimeWarning, stacklevel=2)

    def _request_id(self, request: Request) -> str:
        return f"{self._name}.{request.step}/{request.slot}/{request.sample_index}"

    def _place(self, request: Request) -> _Place:
        """Name a response to the graders, who may still be busy with a dropped one of the same number."""
        return f"{self._name}.{request.step}", request.slot, request.sample_index, request.attempt
