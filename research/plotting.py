"""Pictures, made without a screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure


def panels(rows: int = 1, columns: int = 1, *, figsize: tuple[float, float], **options: Any) -> tuple[Figure, Any]:
    """Return a figure and its panels; ``options`` are of :meth:`matplotlib.figure.Figure.subplots`."""
    figure = Figure(figsize=figsize, layout="constrained")
    if "height_ratios" in options:
        options["gridspec_kw"] = {"height_ratios": options.pop("height_ratios")}
    return figure, figure.subplots(rows, columns, **options)


def save(figure: Figure, path: Path, dpi: int = 110) -> None:
    """Write a PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dpi)
