"""A picture of an evaluation: pass@k, and how many groups give no signal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ada_lightning.analysis.evaluation.tables import AVERAGE, figures_of_parts
from ada_lightning.analysis.picture import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_results(results: Mapping[str, Any], target: Path) -> None:
    """Draw pass@k and the shares of equal groups over k, each with its interval; results as in ``results.json``."""
    panels = (
        ("pass_at", "pass@k", "k"),
        ("all_correct_at", "groups of n that are all correct", "n"),
        ("all_wrong_at", "groups of n that are all wrong", "n"),
    )
    with picture(target, title=results["name"], size=(15, 4.5)) as drawing:
        for axes, (figure, title, letter) in zip(drawing.subplots(1, 3), panels, strict=True):
            for label, figures in figures_of_parts(results):
                _draw(axes, figures, figure, label)
            axes.set_title(title, fontsize=10)
            axes.set_xlabel(letter)
            axes.set_xscale("log", base=2)
            axes.set_ylim(0, 1)
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)


def _draw(axes: Axes, figures: Mapping[str, Any], figure: str, label: str) -> None:
    by_k = {int(name.removeprefix(f"{figure}_")): value for name, value in figures.items() if name.startswith(figure)}
    sizes = sorted(by_k)
    style = "--" if label == AVERAGE else "-"
    axes.plot(sizes, [by_k[k]["mean"] for k in sizes], style, label=label, marker="o", markersize=2.5)
    low, high = (np.array([by_k[k][end] for k in sizes], float) for end in ("low", "high"))  # null is not a number
    axes.fill_between(sizes, low, high, alpha=0.15)
