"""The study's pictures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from research import plotting
from research.studies.group_signal.rules import BUDGETS, CURVES, SIZES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = {"untrained": "#1f6f8b", "trained": "#c8553d"}
_PAPER = {"untrained": "base", "trained": "after RL"}


def plot_groups(measured: Mapping[str, Any], target: Path) -> None:
    """Draw the shares of groups that are all wrong and all right over their size, ours and the paper's."""
    figure, panels = plotting.panels(1, 2, figsize=(9, 4))
    for axes, part, title in zip(panels, ("all_wrong", "all_right"), ("all wrong", "all right"), strict=True):
        for model, found in measured.items():
            curve = found["curves"][part]
            sizes = [int(size) for size in curve]
            color = _COLORS[model]
            axes.plot(sizes, [100 * at["mean"] for at in curve.values()], color=color, marker="o", ms=3, label=model)
            low, high = ([100 * at[end] for at in curve.values()] for end in ("low", "high"))
            axes.fill_between(sizes, low, high, color=color, alpha=0.15, linewidth=0)
            published = CURVES[_PAPER[model]]
            values = published["all_right"] if part == "all_right" else [1 - value for value in published["pass"]]
            label = f"paper, {_PAPER[model]}"
            axes.plot(SIZES, [100 * value for value in values], "--", color=color, linewidth=1, label=label)
        axes.set_title(f"groups that are {title}", fontsize=10)
        axes.set_xlabel("responses per prompt, n")
        axes.set_ylabel("share of prompts, %")
        axes.set_ylim(0, 100)
        _sizes(axes, SIZES)
    panels[1].legend(frameon=False, fontsize=9)
    plotting.save(figure, target, 130)


def plot_budgets(measured: Mapping[str, Any], target: Path) -> None:
    """Draw prompts with a signal over responses per prompt: uniform groups and Seq-balance."""
    figure, panels = plotting.panels(1, 2, figsize=(9, 4))
    for axes, (model, found) in zip(panels, measured.items(), strict=True):
        shown = [at["responses"] for at in found["frontier"]]
        axes.plot(shown, [100 * at["uniform"] for at in found["frontier"]], color="#444444", label="groups of n")
        adaptive = {n_max: found["rules"][f"up to {n_max}"] for n_max in BUDGETS if f"up to {n_max}" in found["rules"]}
        responses = [row["responses"]["mean"] for row in adaptive.values()]
        signal = [100 * row["signal"]["mean"] for row in adaptive.values()]
        axes.plot(responses, signal, color="#c8553d", marker="o", ms=4, label="Seq-balance, n_max at the points")
        for n_max, at, height in zip(adaptive, responses, signal, strict=True):
            axes.annotate(str(n_max), (at, height), xytext=(5, -10), textcoords="offset points", fontsize=8)
        axes.set_title(f"{model} model", fontsize=10)
        axes.set_xlabel("expected responses per prompt")
        axes.set_ylabel("prompts with a signal, %")
        axes.set_ylim(0, 100)
        _sizes(axes, [4, 8, 16, 32, 64, 128])
    panels[0].legend(frameon=False, fontsize=8, loc="upper left")
    plotting.save(figure, target, 130)


def _sizes(axes: Axes, sizes: Any) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.grid(alpha=0.25)
