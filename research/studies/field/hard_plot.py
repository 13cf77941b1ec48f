"""Improvement by difficulty as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from research import plotting

if TYPE_CHECKING:
    from research.studies.field.standing import BinOutcome

_COLORS = ("#222222", "#8a8a8a", "#c8553d", "#1f6f8b")


def plot(found: Sequence[BinOutcome], path: Path) -> None:
    """Draw what each method gained by starting pass rate, and how much more than the first, with 95 % intervals."""
    methods = list(found[0].gains)
    figure, panels = plotting.panels(1, 2, figsize=(10.4, 4.2))
    for panel, kind in zip(panels, ("gains", "leads"), strict=True):
        shown = methods if kind == "gains" else methods[1:]
        for method in shown:
            place = methods.index(method)
            estimates = [getattr(outcome, kind)[method] for outcome in found]
            at = [row + 0.16 * (place - (len(methods) - 1) / 2) for row in range(len(found))]
            values = [estimate.value for estimate in estimates]
            errors = [
                [estimate.value - estimate.low for estimate in estimates],
                [estimate.high - estimate.value for estimate in estimates],
            ]
            panel.errorbar(at, values, yerr=errors, fmt="o", color=_COLORS[place], capsize=3, label=method)
        panel.axhline(0.0, color="black", linewidth=1)
        panel.set_xticks(range(len(found)), [f"{outcome.name}\n{outcome.num_problems} problems" for outcome in found])
        panel.set_xlabel("pass rate before")
        panel.grid(axis="y", alpha=0.25)
    panels[0].set_ylabel("change of the held-out pass rate")
    panels[1].set_ylabel(f"that over {methods[0]}'s")
    panels[0].legend(frameon=False, loc="lower left", fontsize=9)
    plotting.save(figure, path, 130)
