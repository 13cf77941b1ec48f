"""Pictures of a run, drawn while it goes on: the learning curves, and when any of them is drawn anew."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch import LightningModule, Trainer

from ada_lightning.analysis.picture import picture, whole_numbers
from ada_lightning.run.run_dir import RunDir

from .metrics_csv import read_metrics
from .rollout_listener import RolloutListener

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ada_lightning.core.step_records import RolloutResult

Rows = Sequence[dict[str, float]]


class Curves(RolloutListener):
    """Draws ``curves.png`` into the run folder every few steps and at the end, however that comes.

    Args:
        run_dir: folder of the run; its ``metrics.csv`` is what is plotted.
        every_n_steps: steps between two plots. One takes about half a second.

    Raises:
        ValueError: ``every_n_steps`` is below 1.
    """

    _option = "callbacks.curves"

    def __init__(self, *, run_dir: str | Path, every_n_steps: int = 10) -> None:
        if every_n_steps < 1:
            raise ValueError(
                f"every_n_steps must be at least 1; got {every_n_steps}; for no plots, leave the callback out: "
                f"~{self._option}"
            )
        self.run_dir = RunDir(run_dir)
        self.every_n_steps = every_n_steps

    def draw(self) -> None:
        """Draw what the run folder has; nothing where no metrics are logged yet."""
        if rows := read_metrics(self.run_dir.metrics_csv):
            plot_curves(rows, self.run_dir.path / "curves.png", title=self.run_dir.title)

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """Plot the steps up to this one."""
        if trainer.is_global_zero and result.step and result.step % self.every_n_steps == 0:
            self.draw()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Plot the whole run, after its last evaluation."""
        if trainer.is_global_zero:
            self.draw()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Plot what there is of an interrupted run."""
        with suppress(OSError):  # a full disk may be why it ends, and others have more important things to do now
            self.teardown(trainer, pl_module, "fit")


def plot_curves(rows: Rows, target: Path, *, title: str) -> None:
    """Draw reward, signal, responses and seconds over the steps.

    Args:
        rows: metrics by step, as :func:`~callbacks.metrics_csv.read_metrics` returns them.
        target: a PNG file; replaced whole.
        title: stands above the plots.
    """
    with picture(target, title=title, size=(11, 7)) as figure:
        (reward, signal), (responses, seconds) = figure.subplots(2, 2)
        _draw_lines(reward, rows, ["rollout/reward_first_round"])
        _draw_lines(reward, rows, _columns(rows, r"eval/avg_at_\d+"), marker="o")
        _draw_lines(signal, rows, ["rollout/signal_ratio", "rollout/signal_ratio_first_round"])
        _draw_lines(responses, rows, ["rollout/num_sampled"])
        _draw_seconds(seconds, rows)
        for axes, name in (
            (reward, "reward: training prompts (first round), held-out prompts (avg@k)"),
            (signal, "share of prompts with a training signal"),
            (responses, "responses sampled per step"),
            (seconds, "seconds per step, by phase"),
        ):
            axes.set_title(name, fontsize=10)
            axes.set_xlabel("policy updates")
            axes.grid(alpha=0.3)
            if axes is not reward:  # rewards may be negative
                axes.set_ylim(bottom=0)
            whole_numbers(axes)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize=8)


def points(rows: Rows, name: str) -> tuple[list[float], list[float]]:
    """Steps that have a metric, and its values."""
    found = [(row["step"], row[name]) for row in rows if name in row]
    return [step for step, _ in found], [value for _, value in found]


def _draw_lines(axes: Axes, rows: Rows, columns: Iterable[str], *, marker: str = "") -> None:
    for column in columns:
        steps, values = points(rows, column)
        if steps:
            axes.plot(steps, values, marker=marker, label=column)


def _draw_seconds(axes: Axes, rows: Rows) -> None:
    columns = _columns(rows, r"time/\w+_s")
    timed = [row for row in rows if any(column in row for column in columns)]
    if not timed:
        return
    layers: Any = [[row.get(column, 0.0) for row in timed] for column in columns]
    names = [column.removeprefix("time/").removesuffix("_s") for column in columns]
    axes.stackplot([row["step"] for row in timed], layers, labels=names, alpha=0.8, step="mid")


def _columns(rows: Rows, pattern: str) -> list[str]:
    return sorted({key for row in rows for key in row if re.fullmatch(pattern, key)})
