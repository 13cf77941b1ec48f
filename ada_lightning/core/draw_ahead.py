"""Asks for blocks before they are wanted, where the engine would otherwise run half empty."""

from __future__ import annotations

import heapq

from ada_lightning.core.protocols import Sampler
from ada_lightning.core.schedule import Continuous
from ada_lightning.core.step_records import PromptRun, RolloutStats, StepSettings

_CERTAINLY_NOT = 1e-9
"""A chance below it is a certainty that came through floating-point sums."""


class DrawAhead:
    """Decides which prompt's next block is worth starting now.

    Nothing here changes what a prompt's pool becomes: a block drawn ahead is committed in its turn, or dropped. Chances
    are kept in a heap and computed anew only where something of a prompt was launched, told or dropped: looking at all
    prompts after every response would cost more than the engine at 512 prompts a step.

    Args:
        settings: whose schedule says when drawing ahead pays; with rounds it never does.
        sampler: who says how probably more will be wanted. With a step budget nothing is drawn ahead, because the
            budget has to know first.
        stats: running counts of the step.
    """

    def __init__(self, settings: StepSettings, sampler: Sampler, stats: RolloutStats) -> None:
        schedule = settings.schedule
        self._rule = schedule if isinstance(schedule, Continuous) and not sampler.budget_per_step else Continuous()
        self._settings = settings
        self._sampler = sampler
        self._stats = stats
        self._runs: dict[int, PromptRun] = {}
        self._changed: set[int] = set()
        self._chances: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []
        self._num_asked = 0
        self._num_at_risk = 0.0

    def mark_changed(self, run: PromptRun) -> None:
        """Note that something of a run was launched or told."""
        self._runs[run.pool.slot] = run
        self._changed.add(run.pool.slot)

    def note_asked(self, run: PromptRun, num_responses: int) -> None:
        """Note that the sampler wants a block, of which a part may have been drawn ahead."""
        self._num_asked += num_responses
        self._settle_risks(run, 1)
        self.mark_changed(run)

    def note_dropped(self, run: PromptRun) -> None:
        """Note that everything drawn ahead for a run was dropped."""
        self._settle_risks(run, len(run.early_risks))
        self.mark_changed(run)

    def is_certainly_unwanted(self, run: PromptRun) -> bool:
        """Whether what is told decides already that nothing after the blocks wanted so far will be."""
        has_early = run.num_launched > len(run.round_of)
        return has_early and self._chance_after(run, len(run.round_of)) < _CERTAINLY_NOT

    def best(self, num_unfinished: int, num_slots: int) -> PromptRun | None:
        """Return a run whose next block is worth starting, and count it as started; None where nothing is.

        Args:
            num_unfinished: requests that wait or run.
            num_slots: sequences that run at once.
        """
        fill_to = self._rule.fill_to
        num_wanted = num_slots if fill_to is None else min(fill_to, num_slots)
        if num_unfinished >= num_wanted:
            return None
        self._refresh()
        while self._heap and self._chances[self._heap[0][1]] != -self._heap[0][0]:
            heapq.heappop(self._heap)  # outdated
        if not self._heap:
            return None
        chance, run = -self._heap[0][0], self._runs[self._heap[0][1]]
        if chance < self._rule.required_chance(num_unfinished / num_wanted, self.expected_waste_ratio()):
            return None
        run.early_risks.append((1.0 - chance) * self._sampler.samples_per_round)
        self._num_at_risk += run.early_risks[-1]
        self.mark_changed(run)
        return run

    def expected_waste_ratio(self) -> float:
        """Tokens dropped, and expected to be of those drawn ahead, over tokens committed or asked for."""
        stats = self._stats
        mean_length = max(stats.generated_tokens, 1) / max(stats.num_drawn, 1)
        dropped = stats.wasted_tokens + self._num_at_risk * mean_length
        return dropped / max(stats.generated_tokens + (self._num_asked - stats.num_drawn) * mean_length, 1.0)

    def _refresh(self) -> None:
        for slot in sorted(self._changed):
            run = self._runs[slot]
            self._chances[slot] = chance = self._chance_after(run, run.num_launched)
            if chance > 0:
                heapq.heappush(self._heap, (-chance, slot))  # the first of the step among equals
        self._changed.clear()

    def _chance_after(self, run: PromptRun, num_launched: int) -> float:
        """Chance that the prompt goes on after its first ``num_launched`` responses, by what is told of them."""
        if run.is_finished:
            return 0.0
        return self._sampler.chance_to_go_on(run.pool, *run.count_known(self._settings, num_launched))

    def _settle_risks(self, run: PromptRun, num_blocks: int) -> None:
        self._num_at_risk -= sum(run.early_risks[:num_blocks])
        del run.early_risks[:num_blocks]
