"""Shows where a run is: a live bar in a terminal, a line per step elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lightning.pytorch import LightningModule, Trainer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as RichProgress

from ada_lightning.methods.curriculum.auto import sentence_of_change
from ada_lightning.run.terminal import duration

from .budget import share_spent
from .rollout_listener import RolloutListener

if TYPE_CHECKING:
    from ada_lightning.core.step_records import EvaluationResult, RolloutResult
    from ada_lightning.run.phase_clock import PhaseEvent

BAR_INTERVAL_S = 0.2
"""Shortest time between two updates of the bar, so that thousands of events cost nothing."""
LINE_INTERVAL_S = 30.0
"""Shortest time between two lines within a phase, where there is no terminal."""

FACTS = {
    "rollout/reward_first_round": "reward {:.2f}",
    "rollout/signal_ratio": "signal {:.2f}",
    "rollout/num_sampled": "responses {:.0f}",
}
DETAILS = {"train/loss": "loss {:.4f}", "time/rollout_s": "rollout {:.1f}s", "time/update_s": "update {:.1f}s"}


class Progress(RolloutListener):
    """Step, phase, reward, signal and the time left. Stands in for Lightning's own bar, which counts batches.

    The time left is that to the last step or to the end of the budget, whichever comes first. What comes before the
    first rollout (preview, evaluation) is no part of it, nor is the first step once others are seen: it warms up.

    Belongs behind the callbacks that log, so that the figures of a step are there when it ends.

    Args:
        console: where to write; standard error unless given. Whether it is a terminal decides between bar and lines.
        now: clock in seconds.
    """

    def __init__(self, *, console: Console | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console(stderr=True)
        self._now = now
        self._num_steps = 0
        self._updates_per_rollout = 1
        self._num_steps_done = 0
        self._steps_seen = 0
        self._timed_from = (0, 0.0, 0.0)
        self._phase = ""
        self._shown_at = 0.0
        self._facts = ""
        self._before: Mapping[str, float] = {}
        self._bar: RichProgress | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Listen to the clock, and start the bar."""
        if not trainer.is_global_zero:
            return
        datamodule: Any = trainer.datamodule  # type: ignore[attr-defined]
        self._num_steps = datamodule.num_steps
        self._updates_per_rollout = datamodule.updates_per_rollout
        self._shown_at = self._now()
        module: Any = pl_module
        module.clock.subscribe(self.on_phase)
        if self._console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TextColumn("{task.fields[facts]}"),
            )
            self._bar = RichProgress(*columns, console=self._console, refresh_per_second=4, transient=True)
            self._bar.add_task("start", total=None, facts="")
            self._bar.start()

    def on_phase(self, event: PhaseEvent) -> None:
        """Show how far the running phase is. Called thousands of times a step, so mostly returns at once."""
        now = self._now()
        if self._bar is None:
            if event.phase and now - self._shown_at >= LINE_INTERVAL_S:
                self._print(f"{self._running_step()}  {event.phase}{_count(event)}")
        elif event.phase != self._phase or now - self._shown_at >= BAR_INTERVAL_S:
            self._phase, self._shown_at = event.phase, now
            self._bar.update(
                self._bar.task_ids[0],
                description=f"{self._running_step()}  {event.phase}",
                completed=event.done,
                total=event.total or None,
                facts=self._facts,
            )

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """Note the step; its optimiser steps follow."""
        self._num_steps_done = result.step

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Count on from the steps of earlier sessions."""
        module: Any = pl_module
        self._num_steps_done = module.policy_version // self._updates_per_rollout

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the estimate of the time left, right before the first rollout of this session."""
        self._timed_from = (0, self._now(), share_spent(trainer))

    def on_step_end(self, trainer: Trainer, pl_module: LightningModule, figures: Mapping[str, float]) -> None:
        """Show the figures of a finished step."""
        self._num_steps_done += 1
        self._steps_seen += 1
        spent = share_spent(trainer)
        left = f"left {duration(self._left_s(spent))}"
        if self._steps_seen == 1:
            self._timed_from = (1, self._now(), spent)
        if change := sentence_of_change(self._before, figures):
            self._print(change)
        self._before = figures
        facts = _figures(figures, FACTS)
        self._facts = f"{facts}  {left}"
        if self._bar is None:
            shown = "  ".join(filter(None, (facts, _figures(figures, DETAILS), left)))
            self._print(f"step {self._num_steps_done}/{self._num_steps}  {shown}")

    def on_evaluation_end(self, trainer: Trainer, pl_module: LightningModule, result: EvaluationResult) -> None:
        """Show a held-out evaluation; it stays on the screen above the bar."""
        overall = {key.removeprefix("eval/"): value for key, value in result.metrics.items() if key.count("/") == 1}
        figures = "  ".join(f"{name} {value:.3f}" for name, value in overall.items())  # tasks would fill the screen
        self._print(f"held-out after {result.step} steps  {figures}")

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take the bar away."""
        self._stop()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave the terminal as it was, so that the error can be read."""
        self._stop()

    def _left_s(self, spent: float) -> float:
        if spent >= 1.0:
            return 0.0
        steps_before, started_at, spent_before = self._timed_from
        passed_s = self._now() - started_at
        left_s = (self._num_steps - self._num_steps_done) * passed_s / (self._steps_seen - steps_before)
        if spent > spent_before:
            left_s = min(left_s, (1.0 - spent) * passed_s / (spent - spent_before))
        return left_s

    def _running_step(self) -> str:
        return f"step {min(self._num_steps_done + 1, self._num_steps)}/{self._num_steps}"

    def _print(self, line: str) -> None:
        self._shown_at = self._now()
        self._console.print(line, soft_wrap=True, highlight=False, markup=False)

    def _stop(self) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None


def _count(event: PhaseEvent) -> str:
    if event.total:
        return f" {event.done}/{event.total}"
    return f" {event.done}" if event.done else ""


def _figures(metrics: Mapping[str, float], forms: Mapping[str, str]) -> str:
    return "  ".join(form.format(metrics[key]) for key, form in forms.items() if key in metrics)
