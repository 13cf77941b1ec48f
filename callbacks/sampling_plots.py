"""Plots what adaptive sampling did with the run's prompts and tokens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ada_lightning.run.run_dir import RunDir
from callbacks.metrics_csv import read_metrics
from callbacks.prompt_log import read_prompts
from callbacks.run_plot import RunPlot
from callbacks.sampling_figure import plot_sampling

if TYPE_CHECKING:
    pass


class SamplingPlots(RunPlot):
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
        super().__init__(run_dir=run_dir, every_n_steps=every_n_steps)

    def draw(self) -> Path | None:
        """Draw ``sampling.png``; None where no prompts are logged yet."""
        return draw(self.run_dir)

    def _way_out(self) -> str:
        return "; for no plots, leave the callback out: ~callbacks.sampling_plots"


def draw(run_dir: RunDir) -> Path | None:
    """Draw ``sampling.png`` of a run folder; None where it has no prompts to draw."""
    prompts = read_prompts(run_dir.path)
    if prompts.empty:
        return None
    target = run_dir.path / "sampling.png"
    plot_sampling(prompts, read_metrics(run_dir.metrics_csv), target, title=run_dir.title)
    return target


if __name__ == "__main__":
    import sys

    for argument in sys.argv[1:] or sys.exit("usage: python -m callbacks.sampling_plots runs/<run> ..."):
        print(draw(RunDir(argument)) or f"{argument}: no prompts.csv with rows")
