"""A fixed number of responses of each prompt, one prompt after another, without a barrier."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import Completion, Generation, Grade, Prompt, SamplingSettings
from ada_lightning.rollout.drawn import Draw, DrawCounts, DrawnPrompt
from ada_lightning.rollout.engines.errors import EngineError, guarded
from ada_lightning.rollout.grader import Grader

_IDLE_WAIT_S = 0.05  # how long to block on the graders when the engine has nothing to do
_MAX_UNGRADED = 8
"""Responses that may wait for the graders, in engines full of them, before the engine waits too: bounds the memory."""

Place = tuple[int, int]
"""(position of the prompt, sample index)."""


@dataclass(slots=True)
class _Open:
    """A prompt of which some responses are still to come."""

    prompt: Prompt
    draws: list[Draw] = field(default_factory=list)


class DrawStream:
    """Draws and grades, and hands over each prompt as its last response is graded.

    :class:`~ada_lightning.rollout.collection.Collection` does this for a step with an adaptive sampler; here the list
    may have any length. Responses of the next prompts fill the slots that finished ones leave, so the engine runs empty
    once, at the end of the list; and nothing of a prompt is kept once it is handed over.

    Args:
        prompts: (position, encoded prompt); the positions are distinct.
        num_samples: responses per prompt.
        sampling: how tokens are drawn.
        seed_of: seed of a request by (position, prompt id, sample index).
        decode: token ids to text.
        grader: reward pool.
        report: told of the counts after every engine step.
        interrupt_check: called between engine steps; may raise.
    """

    def __init__(
        self,
        prompts: Sequence[tuple[int, Prompt]],
        *,
        num_samples: int,
        sampling: SamplingSettings,
        seed_of: Callable[[int, str, int], int | None],
        decode: Callable[[Sequence[int]], str],
        grader: Grader,
        report: Callable[[DrawCounts], None] = lambda counts: None,
        interrupt_check: Callable[[], None] = lambda: None,
    ) -> None:
        self._to_open = deque(prompts)
        self._num_samples = num_samples
        self._sampling = sampling
        self._seed_of = seed_of
        self._decode = decode
        self._grader = grader
        self._report = report
        self._interrupt_check = interrupt_check
        self._open: dict[int, _Open] = {}
        self._waiting: deque[Place] = deque()
        self._in_flight: dict[str, Place] = {}
        self._grading: dict[Place, tuple[Generation, str]] = {}
        self._counts = DrawCounts()

    def run(self, engine: RolloutEngine) -> Iterator[DrawnPrompt]:
        """Go on until every prompt is handed over.

        Args:
            engine: with nothing in flight. After an :class:`EngineError` the stream goes on where it was with a new
                one; what was in flight is drawn again, with the same seeds.

        Raises:
            EngineError: the engine failed.
        """
        try:
            while self._fill_slots(engine) or self._grading:
                for generation in guarded(engine.poll):
                    self._receive(generation)
                for ticket, grade in self._verdicts():
                    yield from self._settle(ticket, grade)
                self._report(self._counts)
                self._interrupt_check()
        except EngineError:
            self._waiting.extendleft(reversed(self._in_flight.values()))
            self._in_flight.clear()
            raise
        except BaseException:
            self._grader.discard_pending()
            self._drop_all(engine)
            raise

    def _fill_slots(self, engine: RolloutEngine) -> bool:
        """Submit what has a slot; whether anything is in flight."""
        while len(self._in_flight) < engine.max_num_seqs and len(self._grading) < _MAX_UNGRADED * engine.max_num_seqs:
            if not self._waiting:
                if not self._to_open:
                    break
                position, prompt = self._to_open.popleft()
                self._open[position] = _Open(prompt)
                self._waiting.extend((position, index) for index in range(self._num_samples))
            position, index = place = self._waiting.popleft()
            prompt = self._open[position].prompt
            request_id = f"{position}/{index}"
            self._in_flight[request_id] = place  # first: an engine that breaks here owes this one too
            seed = self._seed_of(position, prompt.prompt_id, index)
            guarded(engine.submit, request_id, prompt.prompt_ids, self._sampling, seed)
        return bool(self._in_flight)

    def _receive(self, generation: Generation) -> None:
        place = self._in_flight.pop(generation.request_id)
        self._counts.num_responses += 1
        self._counts.num_tokens += len(generation.response_ids)
        text = self._decode(generation.response_ids)
        self._grading[place] = generation, text
        completion = Completion(
            text, "length" if generation.is_truncated else "stop", num_tokens=len(generation.response_ids)
        )
        self._grader.submit(place, self._open[place[0]].prompt, completion)

    def _verdicts(self) -> list[tuple[Any, Grade]]:
        """Take what the graders have; wait for them only when the engine has nothing left to do."""
        if self._in_flight or not self._grading:
            return self._grader.poll()
        return self._grader.wait(_IDLE_WAIT_S)

    def _settle(self, place: Place, grade: Grade) -> Iterator[DrawnPrompt]:
        """Note a verdict; hand over the prompt if it was the last one."""
        waiting = self._grading.pop(place, None)
        if waiting is None:  # left over from an interrupted collection
            return
        (generation, text), (position, index) = waiting, place
        opened = self._open[position]
        opened.draws.append(Draw(index, text, len(generation.response_ids), generation.is_truncated, grade))
        if len(opened.draws) == self._num_samples:
            del self._open[position]
            self._counts.num_prompts += 1
            draws = tuple(sorted(opened.draws, key=lambda draw: draw.sample_index))
            yield DrawnPrompt(position, opened.prompt, draws)

    def _drop_all(self, engine: RolloutEngine) -> None:
        leftovers = list(self._in_flight)
        self._in_flight.clear()
        try:
            engine.abort(leftovers)
        except Exception as error:
            warnings.warn(f"the engine did not abort its requests: {error}", RuntimeWarning, stacklevel=2)
