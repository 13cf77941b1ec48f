"""The study's two plots: costs by rule, and by pass rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from research import plotting
from research.studies.variance.chosen import (
    BASE,
    FOLDER,
    HISTORY_PLOTTED,
    HISTORY_SHOWN,
    MIX_NAMES,
    PLOTTED,
    RATE_PLOTTED,
    SHOWN,
    load,
)
from research.studies.variance.exact import by_name

_COLORS = ("#1f6f8b", "#c8553d", "#6b8f3a", "#7a5195", "#ef9b20", "#4d4d4d")
_MARKERS = ("o", "s", "D")


def draw_plots() -> None:
    """Write ``costs.png`` and ``by_rate.png``."""
    found = load("exact")
    _costs(found)
    _by_rate(found)


def relative_costs(found: Mapping[str, Any], mix: str, kind: str) -> dict[str, float]:
    """Return every rule's relative variance times responses, over that of GRPO with n = 8."""
    rules = {name: row["by_mix"] for name, row in by_name(found).items()} | dict(found["history"])
    base = rules[BASE][mix][f"{kind}_cost"]
    return {name: figures[mix][f"{kind}_cost"] / base for name, figures in rules.items()}


def _costs(found: Mapping[str, Any]) -> None:
    names = [*PLOTTED, *HISTORY_PLOTTED]
    labels = [SHOWN[name] for name in PLOTTED] + [f"{HISTORY_SHOWN[name]} *" for name in HISTORY_PLOTTED]
    figure, panels = plotting.panels(1, 2, figsize=(10, 5.2), sharey=True)
    for axes, kind in zip(panels, ("generated", "trained"), strict=True):
        for row, (mix, color, marker) in enumerate(zip(MIX_NAMES, _COLORS, _MARKERS, strict=False)):
            costs = relative_costs(found, mix, kind)
            heights = [-place + 0.18 * (1 - row) for place in range(len(names))]  # equal costs lie beside each other
            axes.plot(
                [costs[name] for name in names], heights, marker, color=color, label=mix, markersize=7, alpha=0.85
            )
        axes.axvline(1.0, color="black", linewidth=1)
        axes.set_xscale("log")
        ticks = [0.25, 0.5, 1.0, 2.0, 4.0]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.grid(alpha=0.25)
        axes.set_xlabel(f"variance x responses {kind}, GRPO n = 8 is 1")
    panels[0].set_yticks([-place for place in range(len(names))], labels)
    panels[0].legend(title="pass rates", frameon=False, loc="upper left")
    figure.suptitle(
        "Responses for the same signal to noise: less is better  (* knows one earlier visit of 8)", fontsize=11
    )
    plotting.save(figure, FOLDER / "costs.png", 110)


def _by_rate(found: Mapping[str, Any]) -> None:
    rules = by_name(found)
    figure, panels = plotting.panels(1, 2, figsize=(10, 4.6), sharey=True)
    for axes, kind in zip(panels, ("generated", "trained"), strict=True):
        for name, color in zip(RATE_PLOTTED, _COLORS, strict=True):
            values = rules[name]["by_rate"][f"{kind}_over_bound"]
            axes.plot(found["pass_rates"], values, "o-", color=color, linewidth=2, markersize=4, label=SHOWN[name])
        axes.axhline(1.0, color="black", linewidth=1)
        axes.set_yscale("log")
        ticks = [1, 1.5, 2, 3, 5, 10, 20, 40]
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("pass rate of the prompt")
        axes.set_title(f"variance x responses {kind}", fontsize=11)
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("times the least possible for the rule's own objective")
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, ncol=3, loc="outside lower center", fontsize=9)
    plotting.save(figure, FOLDER / "by_rate.png", 110)
