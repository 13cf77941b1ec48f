"""When a picture of a run is drawn, and where it goes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lightning.pytorch import LightningModule, Trainer

from ada_lightning.run.run_dir import RunDir
from callbacks.rollout_listener import RolloutListener

if TYPE_CHECKING:
    from ada_lightning.core.result import RolloutResult


class RunPlot(RolloutListener, ABC):
    """Draws a picture into the run folder every few steps and at the end, however that comes, and sends it to MLflow.

    Args:
        run_dir: folder of the run; its files are what is plotted.
        every_n_steps: steps between two plots.

    Raises:
        ValueError: ``every_n_steps`` is below 1.
    """

    def __init__(self, *, run_dir: str | Path, every_n_steps: int) -> None:
        if every_n_steps < 1:
            raise ValueError(f"every_n_steps must be at least 1; got {every_n_steps}{self._way_out()}")
        self.run_dir = RunDir(run_dir)
        self.every_n_steps = every_n_steps

    @abstractmethod
    def draw(self) -> Path | None:
        """Draw what the run folder has; None where there is nothing to draw yet."""

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """Plot the steps up to this one."""
        if result.step and result.step % self.every_n_steps == 0:
            self._plot(trainer)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Plot the whole run, after its last evaluation."""
        self._plot(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Plot what there is of an interrupted run."""
        with suppress(OSError):  # a full disk may be why it ends, and others have more important things to do now
            self._plot(trainer)

    def _plot(self, trainer: Trainer) -> None:
        if trainer.is_global_zero:
            self.draw()

    def _way_out(self) -> str:
        return ""
