"""Which prompt will most probably want more: kept up to date, because a step asks thousands of times."""

from __future__ import annotations

import heapq

from ada_lightning.rollout.prompt_run import PromptRun


class Prospects:
    """The runs of a step by their chance to go on.

    A chance changes only when something of its own run is launched, graded or dropped, so only marked runs are computed
    anew: looking at all prompts after every response would cost more than the engine at 512 prompts a step.
    """

    def __init__(self) -> None:
        self._runs: dict[int, PromptRun] = {}
        self._chances: dict[int, float] = {}
        self._changed: set[int] = set()
        self._heap: list[tuple[float, int]] = []

    def mark_changed(self, run: PromptRun) -> None:
        """Note that a run's chance has to be computed anew."""
        self._runs[run.pool.slot] = run
        self._changed.add(run.pool.slot)

    def take_changed(self) -> list[PromptRun]:
        """Return the runs marked since the last call; :meth:`note` each of them."""
        slots, self._changed = sorted(self._changed), set()
        return [self._runs[slot] for slot in slots]

    def note(self, run: PromptRun, chance: float) -> None:
        """Set a run's chance; 0 takes it out."""
        slot = run.pool.slot
        self._chances[slot] = chance
        if chance > 0:
            heapq.heappush(self._heap, (-chance, slot))

    def best(self) -> tuple[PromptRun | None, float]:
        """Return the run with the highest chance, the first of the step among equals, and its chance."""
        while self._heap:
            negative_chance, slot = self._heap[0]
            if self._chances[slot] == -negative_chance:
                return self._runs[slot], -negative_chance
            heapq.heappop(self._heap)  # outdated
        return None, 0.0
