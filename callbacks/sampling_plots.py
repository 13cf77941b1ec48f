"""Plots what adaptive sampling did with the run's prompts and tokens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lightning.pytorch import LightningModule, Trainer

from ada_lightning.run_dir import RunDir
from callbacks.metrics_csv import read_metrics
from callbacks.mlflow_logger import MLflowTracking
from callbacks.prompt_log import read_prompts
from callbacks.rollout_listener import RolloutListener
from callbacks.sampling_figure import plot_sampling

if TYPE_CHECKING:
    from ada_lightning.rollout.result import RolloutResult


class SamplingPlots(RolloutListener):
    """Draws ``sampling.png`` into the run folder every few steps and at the end, and sends it to MLflow.

    It must come after :class:`~callbacks.prompt_log.PromptLog`, whose file it draws. ``python -m
    callbacks.sampling_plots runs/<run>`` draws it anew.

    Args:
        run_dir: folder of the run.
        every_n_steps: steps between two plots. One takes about a second.

    Raises:
        ValueError: ``every_n_steps`` is below 1.
    """

    def __init__(self, *, run_dir: str | Path, every_n_steps: int = 20) -> None:
        if every_n_steps < 1:
            raise ValueError(
                f"every_n_steps must be at least 1; got {every_n_steps}; for no plots, leave the callback out: "
                "~callbacks.sampling_plots"
            )
        self.run_dir = RunDir(run_dir)
        self.every_n_steps = every_n_steps

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """Plot the steps up to this one."""
        if result.step and result.step % self.every_n_steps == 0:
            self._plot(trainer)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Plot the whole run."""
        self._plot(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Plot what there is of an interrupted run."""
        self._plot(trainer)

    def _plot(self, trainer: Trainer) -> None:
        target = draw(self.run_dir) if trainer.is_global_zero else None
        for logger in trainer.loggers if target else []:
            if isinstance(logger, MLflowTracking) and target:
                logger.log_file(target)


def draw(run_dir: RunDir) -> Path | None:
    """Draw ``sampling.png`` of a run folder; None where it has no prompts to draw."""
    prompts = read_prompts(run_dir.path)
    if prompts.empty:
        return None
    target = run_dir.path / "sampling.png"
    plot_sampling(prompts, read_metrics(run_dir.metrics_csv), target, title=run_dir.path.name)
    return target


if __name__ == "__main__":
    import sys

    for argument in sys.argv[1:] or sys.exit("usage: python -m callbacks.sampling_plots runs/<run> ..."):
        print(draw(RunDir(argument)) or f"{argument}: no prompts.csv with rows")
