"""Hands responses to the engine: who goes first, what is in flight, what is dropped."""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import Generation, ResponsePool, SamplingSettings
from ada_lightning.core.seeds import request_seed
from ada_lightning.rollout.engines.errors import guarded
from ada_lightning.rollout.prompt_run import PromptRun


@dataclass(frozen=True, slots=True)
class RequestSeeds:
    """What every response's seed is made of besides its prompt and place."""

    run_seed: int
    stage: str
    step: int
    is_seeded: bool = True

    def of(self, pool: ResponsePool, sample_index: int) -> int | None:
        """Seed of one response; None where requests are not seeded."""
        if not self.is_seeded:
            return None
        return request_seed(
            run_seed=self.run_seed,
            stage=self.stage,
            step=self.step,
            slot=pool.slot,
            prompt_id=pool.prompt.prompt_id,
            sample_index=sample_index,
        )


@dataclass(order=True, frozen=True, slots=True)
class _Waiting:
    """A response that has no slot yet. The greatest need comes first, then the order of launching."""

    negative_need: float
    launch_index: int
    run: PromptRun = field(compare=False)
    sample_index: int = field(compare=False)


class Launcher:
    """Keeps the engine's slots filled, the greatest need first.

    Responses wait here and not in the engine, because an engine serves its queue in the order it came in, and dropping
    what waits here costs nothing.

    Args:
        engine: with nothing in flight.
        sampling: how tokens are drawn.
        seeds: of the requests.
        name: unique in the process; part of every request's name.
    """

    def __init__(self, engine: RolloutEngine, sampling: SamplingSettings, seeds: RequestSeeds, name: str) -> None:
        self._engine = engine
        self._sampling = sampling
        self._seeds = seeds
        self._name = name
        self._waiting: list[_Waiting] = []
        self._in_flight: dict[str, tuple[PromptRun, int]] = {}
        self.num_launched = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is in flight."""
        return not self._waiting and not self._in_flight

    @property
    def num_unfinished(self) -> int:
        """Responses that wait or are in flight."""
        return len(self._waiting) + len(self._in_flight)

    def launch(self, run: PromptRun, num_responses: int, need: float) -> None:
        """Queue a prompt's next responses.

        Args:
            run: of the prompt.
            num_responses: how many.
            need: expected number of responses that this prompt still takes; more goes first.
        """
        for _ in range(num_responses):
            heapq.heappush(self._waiting, _Waiting(-need, self.num_launched, run, run.num_launched))
            run.num_launched += 1
            self.num_launched += 1

    def fill_slots(self) -> None:
        """Submit what waits while slots are free.

        Raises:
            EngineError: the engine failed.
        """
        while self._waiting and len(self._in_flight) < self._engine.max_num_seqs:
            waiting = heapq.heappop(self._waiting)
            pool, request_id = waiting.run.pool, self._request_id(waiting.run, waiting.sample_index)
            seed = self._seeds.of(pool, waiting.sample_index)
            guarded(self._engine.submit, request_id, pool.prompt.prompt_ids, self._sampling, seed)
            self._in_flight[request_id] = waiting.run, waiting.sample_index

    def take(self, generation: Generation) -> tuple[PromptRun, int] | None:
        """Whose response this is; None where it was dropped, perhaps because of one that finished in the same poll."""
        return self._in_flight.pop(generation.request_id, None)

    def drop(self, run: PromptRun, sample_indices: Iterable[int]) -> int:
        """Abort what waits or runs of these responses.

        Returns:
            Tokens that had been generated for them.

        Raises:
            EngineError: the engine failed.
        """
        unwanted = set(sample_indices)
        kept = [w for w in self._waiting if w.run is not run or w.sample_index not in unwanted]
        if len(kept) < len(self._waiting):
            self._waiting = kept
            heapq.heapify(self._waiting)
        names = [self._request_id(run, index) for index in unwanted]
        running = [name for name in names if self._in_flight.pop(name, None)]
        return guarded(self._engine.abort, running) if running else 0

    def drop_all(self) -> None:
        """Leave nothing in flight after an interrupt or an error; warns where the engine does not let go."""
        leftovers = list(self._in_flight)
        self._in_flight.clear()
        self._waiting.clear()
        try:
            self._engine.abort(leftovers)
        except Exception as error:
            warnings.warn(f"the engine did not abort its requests: {error}", RuntimeWarning, stacklevel=2)

    def _request_id(self, run: PromptRun, sample_index: int) -> str:
        return f"{self._name}/{run.pool.slot}/{sample_index}"
