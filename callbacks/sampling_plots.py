"""One picture of what adaptive sampling did: how hard the prompts were, and where responses and tokens went."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ada_lightning.analysis.picture import picture, whole_numbers
from ada_lightning.run.run_dir import RunDir

from .curves import Curves, Rows, points
from .metrics_csv import read_metrics
from .prompt_log import read_prompts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EDGES = np.array([0.0, 0.02, 0.1, 0.3, 0.7, 0.9, 0.98, 1.000001])
"""Bins of pass rates, symmetric. The ends are narrow: prompts that are never or always solved are the hard cases."""
LABELS = ("< 2 %", "2-10 %", "10-30 %", "30-70 %", "70-90 %", "90-98 %", "> 98 %")
MAX_COLUMNS = 120
"""Most columns over the steps; steps beyond are joined."""


class SamplingPlots(Curves):
    """Draws ``sampling.png`` into the run folder every few steps and at the end, however that comes.

    It must come after :class:`~ada_lightning.callbacks.prompt_log.PromptLog`, whose file it draws. ``python -m
    ada_lightning.callbacks.sampling_plots runs/<run>`` draws it anew.

    Args:
        run_dir: folder of the run.
        every_n_steps: steps between two plots. One takes about a second.

    Raises:
        ValueError: ``every_n_steps`` is below 1.
    """

    _option = "callbacks.sampling_plots"

    def __init__(self, *, run_dir: str | Path, every_n_steps: int = 20) -> None:
        super().__init__(run_dir=run_dir, every_n_steps=every_n_steps)

    def draw(self) -> None:
        """Draw what the run folder has; nothing where no prompts are logged yet."""
        draw(self.run_dir)


def draw(run_dir: RunDir) -> Path | None:
    """Draw ``sampling.png`` of a run folder; None where it has no prompts to draw."""
    prompts = read_prompts(run_dir.path)
    if prompts.empty:
        return None
    target = run_dir.path / "sampling.png"
    plot_sampling(prompts, read_metrics(run_dir.metrics_csv), target, title=run_dir.title)
    return target


def plot_sampling(prompts: pd.DataFrame, metrics: Rows, target: Path, *, title: str) -> None:
    """Draw four plots over the steps of a run into an image file.

    Args:
        prompts: as :func:`~callbacks.prompt_log.read_prompts` returns them; at least one row.
        metrics: by step, as :func:`~callbacks.metrics_csv.read_metrics` returns them.
        target: a PNG file; replaced whole.
        title: stands above the plots.
    """
    known = prompts[prompts.pass_rate.notna() & (prompts.hint == 0)]
    known = known.assign(bin=np.clip(np.digitize(known.pass_rate, EDGES) - 1, 0, len(LABELS) - 1))
    joined, width = _joined_steps(known)
    with picture(target, title=title, size=(12, 8)) as figure:
        (difficulty, samples), (budget, lengths) = figure.subplots(2, 2)
        draw_difficulty(figure, difficulty, joined, width)
        draw_samples(samples, known)
        draw_budget(budget, joined, width)
        draw_lengths(lengths, metrics)


def draw_difficulty(figure: Figure, axes: Axes, prompts: pd.DataFrame, width: int) -> None:
    """Heat map: share of a step's prompts (colour) by estimated pass rate (rows) over the steps (columns)."""
    axes.set_title("how hard the prompts are: share of prompts by pass rate", fontsize=10)
    axes.set_yticks(range(len(LABELS)), LABELS)
    axes.set_xlabel("rollout steps")
    whole_numbers(axes)
    axes.set_ylabel("pass rate, unbiased estimate")
    if prompts.empty:
        return
    shares = _shares(prompts.assign(weight=1), "weight")
    extent = (shares.index[0] - 0.5, shares.index[-1] + width - 0.5, -0.5, len(LABELS) - 0.5)
    image = axes.imshow(
        shares.T, origin="lower", aspect="auto", extent=extent, cmap="viridis", vmin=0, interpolation="nearest"
    )
    figure.colorbar(image, ax=axes, format=lambda value, _: f"{value:.0%}")


def draw_samples(axes: Axes, prompts: pd.DataFrame) -> None:
    """Boxes: responses drawn for a prompt, by its estimated pass rate, over the newest quarter of the steps."""
    newest = prompts[prompts.step >= int((prompts.step.max() + 1) * 0.75)] if len(prompts) else prompts
    groups = [newest.num_drawn[newest.bin == index].to_numpy() for index in range(len(LABELS))]
    axes.set_title("what a prompt gets: responses by pass rate (newest quarter of the steps)", fontsize=10)
    axes.set_xlabel("pass rate, unbiased estimate (number of prompts)")
    axes.set_ylabel("responses drawn")
    positions = [index for index, group in enumerate(groups) if len(group)]
    if positions:
        axes.boxplot(
            [groups[index] for index in positions],
            positions=positions,
            widths=0.6,
            whis=(5, 95),
            showfliers=False,
            showmeans=True,
            patch_artist=True,
            boxprops={"facecolor": "#cfe2f3"},
            medianprops={"color": "black"},
        )
    axes.set_xticks(range(len(LABELS)), [f"{name}\n({len(group)})" for name, group in zip(LABELS, groups, strict=True)])
    axes.set_xlim(-0.6, len(LABELS) - 0.4)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3, axis="y")


def draw_budget(axes: Axes, prompts: pd.DataFrame, width: int) -> None:
    """Layers: share of a step's response tokens by estimated pass rate."""
    import matplotlib as mpl

    axes.set_title("where the budget goes: share of tokens by pass rate", fontsize=10)
    axes.set_xlabel("rollout steps")
    whole_numbers(axes)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    if prompts.empty:
        return
    # Each bar of the histogram covers its steps, a single one too.
    shares = _shares(prompts, "tokens")
    colors = mpl.colormaps["RdYlGn"](np.linspace(0.05, 0.95, len(LABELS)))
    edges = np.append(shares.index, shares.index[-1] + width) - 0.5
    bottom = np.zeros(len(shares))
    for index, label in enumerate(LABELS):
        top = bottom + shares[index].to_numpy()
        axes.stairs(top, edges, baseline=bottom, fill=True, color=colors[index], label=label)
        bottom = top
    axes.set_xlim(edges[0], edges[-1])
    axes.legend(
        fontsize=7,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        ncols=len(LABELS),
        handlelength=1,
        columnspacing=0.9,
    )


def draw_lengths(axes: Axes, metrics: Rows) -> None:
    """Lines: quantiles of response tokens; dashed, on the right, the share cut by the length limit."""
    axes.set_title("how long responses are: tokens, and share cut by the limit", fontsize=10)
    axes.set_xlabel("policy updates")
    axes.grid(alpha=0.3)
    mean, low, middle, high = (
        points(metrics, f"rollout/response_tokens{suffix}") for suffix in ("", "_p10", "_p50", "_p90")
    )
    if low[0] and low[0] == high[0]:
        axes.fill_between(*low, high[1], alpha=0.2, label="10 % to 90 %")
    for (x, y), label in ((middle, "median"), (mean, "mean")):
        if x:
            axes.plot(x, y, label=label)
    axes.set_ylim(bottom=0)
    whole_numbers(axes)
    steps, truncated = points(metrics, "rollout/truncated_ratio")
    if steps:
        right = axes.twinx()
        right.plot(steps, truncated, "--", color="tab:red", label="cut (right)")
        right.set_ylim(0, 1)
        right.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.plot([], [], "--", color="tab:red", label="cut (right)")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)


def _joined_steps(prompts: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Name steps by the first of their column; width of a column in steps."""
    if prompts.empty:
        return prompts, 1
    first = int(prompts.step.min())
    width = (int(prompts.step.max()) - first) // MAX_COLUMNS + 1
    return prompts.assign(step=first + (prompts.step - first) // width * width), width


def _shares(prompts: pd.DataFrame, weight: str) -> pd.DataFrame:
    """Share of a step's weight in each bin: a row for each step that has prompts, 0 where all weights are."""
    table = prompts.pivot_table(index="step", columns="bin", values=weight, aggfunc="sum", fill_value=0)
    table = table.reindex(columns=range(len(LABELS)), fill_value=0)
    return table.div(table.sum(axis=1).clip(lower=1), axis=0)


if __name__ == "__main__":
    import sys

    for argument in sys.argv[1:] or sys.exit("usage: python -m ada_lightning.callbacks.sampling_plots runs/<run> ..."):
        print(draw(RunDir(argument)) or f"{argument}: no prompts.csv with rows")
