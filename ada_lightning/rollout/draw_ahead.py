"""Launches blocks before they are asked for, where the engine would otherwise run half empty."""

from __future__ import annotations

from collections.abc import Callable

from ada_lightning.core.protocols import Sampler
from ada_lightning.rollout.launcher import Launcher
from ada_lightning.rollout.prompt_run import PromptRun
from ada_lightning.rollout.prospects import Prospects
from ada_lightning.rollout.schedule import Barrier, Continuous, Schedule
from ada_lightning.rollout.tally import Tally

_CERTAINLY_NOT = 1e-9
"""A chance below it is a certainty that came through floating-point sums."""


class DrawAhead:
    """Decides which prompt's next block is worth starting now.

    Nothing here changes what a prompt's pool becomes: a block drawn ahead is committed in its turn, or dropped.

    Args:
        schedule: when drawing ahead pays; with a :class:`Barrier` it never does.
        sampler: who can say how probably more will be wanted. With a step budget nothing is drawn ahead, because the
            budget has to know first.
        launcher: to launch with.
        tally: running counts of the collection.
        count_known: (positives, negatives) among a run's first so many launched responses, graded ahead of their turn
            included, and how many of them are still open.
    """

    def __init__(
        self,
        schedule: Schedule,
        sampler: Sampler,
        launcher: Launcher,
        tally: Tally,
        count_known: Callable[[PromptRun, int], tuple[int, int, int]],
    ) -> None:
        self._rule = Continuous() if isinstance(schedule, Barrier) or sampler.budget_per_step else schedule
        self._sampler = sampler
        self._launcher = launcher
        self._tally = tally
        self._count_known = count_known
        self._prospects = Prospects()
        self._num_asked = 0
        self._num_at_risk = 0.0

    def mark_changed(self, run: PromptRun) -> None:
        """Note that something of a run was launched or graded."""
        self._prospects.mark_changed(run)

    def note_asked(self, run: PromptRun, num_responses: int) -> None:
        """Note that the sampler asked for a block, of which a part may have been drawn ahead."""
        self._num_asked += num_responses
        self._settle_risks(run, 1)
        self.mark_changed(run)

    def note_dropped(self, run: PromptRun) -> None:
        """Note that everything drawn ahead for a run was dropped."""
        self._settle_risks(run, len(run.early_risks))
        self.mark_changed(run)

    def is_certainly_unwanted(self, run: PromptRun) -> bool:
        """Whether what is graded decides already that nothing after the blocks asked for will be wanted."""
        has_early = run.num_launched > len(run.round_of)
        return has_early and self._chance_after(run, len(run.round_of)) < _CERTAINLY_NOT

    def fill(self, num_slots: int) -> None:
        """Launch what is worth it.

        Args:
            num_slots: of the engine.
        """
        num_wanted = min(self._rule.fill_to, num_slots)
        while self._launcher.num_unfinished < num_wanted:
            for run in self._prospects.take_changed():
                self._prospects.note(run, self._chance_after(run, run.num_launched))
            best, chance = self._prospects.best()
            fullness = self._launcher.num_unfinished / num_wanted
            if best is None or chance < self._rule.required_chance(fullness, self.expected_waste_ratio()):
                return
            best.early_risks.append((1.0 - chance) * self._sampler.samples_per_round)
            self._num_at_risk += best.early_risks[-1]
            self._launcher.launch(best, self._sampler.samples_per_round, need=0.0)
            self.mark_changed(best)

    def expected_waste_ratio(self) -> float:
        """Tokens dropped, and expected to be of those drawn ahead, over tokens committed or asked for."""
        tally = self._tally
        mean_length = max(tally.generated_tokens, 1) / max(tally.num_drawn, 1)
        dropped = tally.wasted_tokens + self._num_at_risk * mean_length
        return dropped / max(tally.generated_tokens + (self._num_asked - tally.num_drawn) * mean_length, 1.0)

    def _chance_after(self, run: PromptRun, num_launched: int) -> float:
        """Chance that the prompt goes on after its first ``num_launched`` responses, by what is graded of them."""
        if run.is_finished:
            return 0.0
        return self._sampler.chance_to_go_on(run.pool, *self._count_known(run, num_launched))

    def _settle_risks(self, run: PromptRun, num_blocks: int) -> None:
        self._num_at_risk -= sum(run.early_risks[:num_blocks])
        del run.early_risks[:num_blocks]
