"""Plots the learning curves of a run from its metrics file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callbacks.metrics_csv import read_metrics
from callbacks.run_plot import RunPlot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = Sequence[dict[str, float]]


class Curves(RunPlot):
    """Draws ``curves.png`` into the run folder every few steps and at the end, and sends it to MLflow.

    Args:
        run_dir: folder of the run; its ``metrics.csv`` is what is plotted.
        every_n_steps: steps between two plots. One takes about half a second.

    Raises:
        ValueError: ``every_n_steps`` is below 1.
    """

    def __init__(self, *, run_dir: str | Path, every_n_steps: int = 10) -> None:
        super().__init__(run_dir=run_dir, every_n_steps=every_n_steps)

    def draw(self) -> Path | None:
        """Draw ``curves.png``; None where no metrics are logged yet."""
        rows = read_metrics(self.run_dir.metrics_csv)
        if not rows:
            return None
        target = self.run_dir.path / "curves.png"
        plot_curves(rows, target, title=self.run_dir.title)
        return target


def plot_curves(rows: Rows, target: Path, *, title: str) -> None:
    """Draw reward, signal, responses and seconds over the steps into an image file.

    Args:
        rows: metrics by step, as :func:`~callbacks.metrics_csv.read_metrics` returns them.
        target: a PNG file; replaced whole.
        title: stands above the plots.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    (reward, signal), (responses, seconds) = figure.subplots(2, 2)
    _draw_lines(reward, rows, ["rollout/reward_first_round"], marker="")
    _draw_lines(reward, rows, _columns(rows, r"eval/avg_at_\d+"), marker="o")
    _draw_lines(signal, rows, ["rollout/signal_ratio", "rollout/signal_ratio_first_round"], marker="")
    _draw_lines(responses, rows, ["rollout/num_sampled"], marker="")
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
        axes.xaxis.get_major_locator().set_params(integer=True)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
    temporary = target.with_name(f".{target.name}.tmp")
    figure.savefig(temporary, dpi=110, format="png")
    temporary.replace(target)


def _draw_lines(axes: Axes, rows: Rows, columns: Iterable[str], *, marker: str) -> None:
    for column in columns:
        points = [(row["step"], row[column]) for row in rows if column in row]
        if points:
            axes.plot(*zip(*points, strict=True), marker=marker, label=column)


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
