"""One figure of what adaptive sampling did: how hard the prompts were, and where responses and tokens went."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

Rows = Sequence[dict[str, float]]
EDGES = np.array([0.0, 0.02, 0.1, 0.3, 0.7, 0.9, 0.98, 1.000001])
"""Bins of pass rates, symmetric. The ends are narrow: prompts that are never or always solved are the hard cases."""
LABELS = ("< 2 %", "2-10 %", "10-30 %", "30-70 %", "70-90 %", "90-98 %", "> 98 %")
MAX_COLUMNS = 120
"""Most columns over the steps; steps beyond are joined."""


def plot_sampling(prompts: pd.DataFrame, metrics: Rows, target: Path, *, title: str) -> None:
    """Draw four plots over the steps of a run into an image file.

    Args:
        prompts: as :func:`~callbacks.prompt_log.read_prompts` returns them; at least one row.
        metrics: by step, as :func:`~callbacks.metrics_csv.read_metrics` returns them.
        target: a PNG file; replaced whole.
        title: stands above the plots.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    (difficulty, samples), (budget, lengths) = figure.subplots(2, 2)
    known = prompts[prompts.pass_rate.notna()]
    bins = np.clip(np.digitize(known.pass_rate, EDGES) - 1, 0, len(LABELS) - 1)
    known = known.assign(bin=bins)
    joined, width = _joined_steps(known)
    draw_difficulty(figure, difficulty, joined, width)
    draw_samples(samples, known)
    draw_budget(budget, joined, width)
    draw_lengths(lengths, metrics)
    temporary = target.with_name(f".{target.name}.tmp")
    figure.savefig(temporary, dpi=110, format="png")
    temporary.replace(target)


def draw_difficulty(figure: Figure, axes: Axes, prompts: pd.DataFrame, width: int) -> None:
    """Heat map: share of a step's prompts (colour) by estimated pass rate (rows) over the steps (columns)."""
    steps, shares = _shares(prompts, None)
    axes.set_title("how hard the prompts are: share of prompts by pass rate", fontsize=10)
    axes.set_yticks(range(len(LABELS)), LABELS)
    _label_steps(axes)
    axes.set_ylabel("pass rate, unbiased estimate")
    if not len(steps):
        return
    extent = (steps[0] - 0.5, steps[-1] + width - 0.5, -0.5, len(LABELS) - 0.5)
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

    steps, shares = _shares(prompts, "tokens")
    axes.set_title("where the budget goes: share of tokens by pass rate", fontsize=10)
    _label_steps(axes)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    if not len(steps):
        return
    # Each bar of the histogram covers its steps, a single one too.
    colors = mpl.colormaps["RdYlGn"](np.linspace(0.05, 0.95, len(LABELS)))
    edges = np.append(steps, steps[-1] + width) - 0.5
    bottom = np.zeros(len(steps))
    for index, label in enumerate(LABELS):
        top = bottom + shares[:, index]
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
        _line(metrics, f"rollout/response_tokens{suffix}") for suffix in ("", "_p10", "_p50", "_p90")
    )
    if low[0] and low[0] == high[0]:
        axes.fill_between(*low, high[1], alpha=0.2, label="10 % to 90 %")
    for (x, y), label in ((middle, "median"), (mean, "mean")):
        if x:
            axes.plot(x, y, label=label)
    axes.set_ylim(bottom=0)
    _whole_numbers(axes)
    steps, truncated = _line(metrics, "rollout/truncated_ratio")
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


def _shares(prompts: pd.DataFrame, weight: str | None) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Columns that have prompts, without gaps, and shares of shape (columns, bins)."""
    if prompts.empty:
        return np.empty(0), np.empty((0, len(LABELS)))
    steps = np.unique(prompts.step)
    weights = None if weight is None else prompts[weight].to_numpy(dtype=float)
    index = np.searchsorted(steps, prompts.step)
    table = np.bincount(index * len(LABELS) + prompts.bin, weights, minlength=len(steps) * len(LABELS))
    table = table.reshape(len(steps), len(LABELS)).astype(float)
    return steps, table / np.maximum(table.sum(axis=1, keepdims=True), 1)


def _line(metrics: Rows, name: str) -> tuple[list[float], list[float]]:
    points = [(row["step"], row[name]) for row in metrics if name in row]
    return [step for step, _ in points], [value for _, value in points]


def _label_steps(axes: Axes) -> None:
    axes.set_xlabel("rollout steps")
    _whole_numbers(axes)


def _whole_numbers(axes: Axes) -> None:
    locator: Any = axes.xaxis.get_major_locator()
    locator.set_params(integer=True)
