"""The study's pictures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.simulation.pass_rates import Mix
from studies.group_signal.by_mix import Bounds
from studies.group_signal.paper import CURVES, SIZES
from studies.group_signal.rates import CountedRates
from studies.group_signal.rules import BUDGETS
from studies.group_signal.uniform import uniform_groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = {"untrained": "#1f6f8b", "trained": "#c8553d"}
_PAPER = {"untrained": "base", "trained": "after RL"}
_BOUNDS = (
    ("best_without_history", ":", "#6b8f3a", "best rule that knows the mix"),
    ("best_with_known_rates", "--", "#7a5195", "best rule that knows each p"),
)
_RESPONSES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def plot_groups(measured: Mapping[str, Any], target: Path) -> None:
    """Draw the shares of groups that are all wrong and all right over their size, ours and the paper's.

    Args:
        measured: figures by model.
        target: PNG file.
    """
    figure, panels = _panels()
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
    _save(figure, target)


def plot_budgets(measured: Mapping[str, Any], counts: Mapping[str, CountedRates], target: Path) -> None:
    """Draw prompts with a signal over responses per prompt: uniform, Seq-balance, and the two bounds of the fitted mix.

    Args:
        measured: figures by model.
        counts: of the same models.
        target: PNG file.
    """
    figure, panels = _panels()
    for axes, (model, found) in zip(panels, measured.items(), strict=True):
        groups = uniform_groups(counts[model], found["num_responses"])
        shown = [at for at in _RESPONSES if at <= found["num_responses"]]
        axes.plot(shown, [100 * groups.signal_at(at) for at in shown], color="#444444", label="groups of n")
        adaptive = [found["rules"][f"up to {n_max}"] for n_max in BUDGETS if f"up to {n_max}" in found["rules"]]
        responses = [row["responses"]["mean"] for row in adaptive]
        signal = [100 * row["signal"]["mean"] for row in adaptive]
        axes.plot(responses, signal, color="#c8553d", marker="o", ms=4, label="Seq-balance, up to n")
        for n_max, at, height in zip(BUDGETS, responses, signal, strict=False):
            axes.annotate(str(n_max), (at, height), xytext=(-3, 6), textcoords="offset points", fontsize=8, ha="right")
        bounds = Bounds(Mix(*found["fit"]["mix"]))
        best = [bounds.at(at) for at in shown]
        for name, style, color, label in _BOUNDS:
            axes.plot(shown, [100 * at[name] for at in best], style, color=color, label=label)
        axes.set_title(f"{model} model", fontsize=10)
        axes.set_xlabel("expected responses per prompt")
        axes.set_ylabel("prompts with a signal, %")
        axes.set_ylim(0, 100)
        _sizes(axes, [4, 8, 16, 32, 64, 128])
    panels[0].legend(frameon=False, fontsize=8, loc="upper left" if _has_room(measured) else "lower right")
    _save(figure, target)


def _has_room(measured: Mapping[str, Any]) -> bool:
    first = next(iter(measured.values()))
    return bool(first["rules"]["up to 8"]["signal"]["mean"] < 0.5)


def _panels() -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, 2)


def _sizes(axes: Axes, sizes: Any) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.grid(alpha=0.25)


def _save(figure: Any, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=130)
