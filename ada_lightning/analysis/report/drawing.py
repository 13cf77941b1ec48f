"""A picture of a report: once as an image for documents, once as part of the page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#3d82c4", "#d9752e", "#2f9e6e", "#a06bd1", "#cf4f74", "#a88a1c", "#5f8f9c", "#7d8590")
"""Of the methods, in turn; each reads on white and on black."""
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":")
INK = "#010203"
"""Stands for the colour of the text, which a page sets by its scheme; black in a document."""


@dataclass(frozen=True)
class Drawing:
    """A finished picture."""

    name: str
    """File name without its ending."""
    title: str
    png: bytes
    svg: str
    """Text in the page's colour, no background."""


def style(index: int) -> tuple[str, Any]:
    """Colour and dash of the method at a place in the list."""
    return COLORS[index % len(COLORS)], DASHES[index // len(COLORS) % len(DASHES)]


@contextmanager
def blank(width: float = 4.3, height: float = 2.75) -> Iterator[Figure]:
    """Give a figure of its own, in inches: pyplot's state, and a person's matplotlibrc, stay out of it."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "ada_lightning",
        "text.parse_math": False,  # a name may hold a dollar sign
        "font.family": "sans-serif",
        "font.size": 9,
        **{f"{name}.color": INK for name in ("text", "xtick", "ytick")},
        "axes.labelcolor": INK,
        "axes.edgecolor": INK,
    }
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings)
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def tidy(axes: Axes, title: str) -> None:
    """Take away all ink that says nothing."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(color=INK, alpha=0.12, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_alpha(0.35)
    axes.tick_params(length=0)


def finished(figure: Figure, name: str, title: str) -> Drawing:
    """Render both forms, each in one pass: ``savefig`` would draw four times and find the layout twice."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    png, svg = io.BytesIO(), io.StringIO()
    figure.set_facecolor("white")
    figure.set_dpi(200)
    FigureCanvasAgg(figure).print_png(png, metadata={"Software": None})
    figure.set_dpi(72)
    for patch in (figure.patch, *(axes.patch for axes in figure.axes)):
        patch.set_visible(False)
    FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None, "Creator": None})
    return Drawing(name, title, png.getvalue(), _for_page(svg.getvalue()))


def _for_page(svg: str) -> str:
    """Cut what only a file of its own needs, and let the page choose the colour of the text."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<(metadata|style)[^>]*>.*?</\1>", "", body, flags=re.DOTALL)
    head, _, rest = body.partition(">")
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    return f"{head}>{rest}".replace(INK, "currentColor").strip()
