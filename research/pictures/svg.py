"""Shapes and words of a picture, as the text of an SVG file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from html import escape


@dataclass(frozen=True)
class Palette:
    """Colours of a picture, for a light or a dark page."""

    ground: str
    ink: str
    faint: str
    """Words that matter less, and lines."""
    right: str
    wrong: str
    on_color: str
    """Marks and words on a coloured shape."""
    grey: str
    on_grey: str
    blue: str
    """Generation."""
    purple: str
    """Updates of the weights."""
    panel: str
    """A shape that holds others."""


LIGHT = Palette(
    ground="#ffffff",
    ink="#1f2328",
    faint="#59636e",
    right="#1a7f64",
    wrong="#c4571b",
    on_color="#ffffff",
    grey="#d5d9de",
    on_grey="#9aa2ab",
    blue="#3a6ea5",
    purple="#7a56a8",
    panel="#f1f4f7",
)
DARK = Palette(
    ground="#0d1117",
    ink="#e6edf3",
    faint="#9198a1",
    right="#35b58f",
    wrong="#ee8a4a",
    on_color="#0d1117",
    grey="#343b44",
    on_grey="#69717b",
    blue="#6ea6e0",
    purple="#b18ae0",
    panel="#1a212a",
)


class Use(Enum):
    """What becomes of a response."""

    TRAINS = "trains"
    SURPLUS = "surplus"
    """It counts for the baseline and does not train."""
    WASTED = "wasted"
    """All rewards of its group are equal."""


class Drawing:
    """A picture under way.

    Args:
        width: of the picture, in the unit of all lengths here; it scales to the page.
        height: of the picture.
        alt: what one sees, for those who do not.
        palette: its colours.
    """

    def __init__(self, width: float, height: float, alt: str, palette: Palette = LIGHT) -> None:
        self.palette = palette
        self._lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" font-family="Helvetica, Arial, sans-serif" role="img" aria-label="{escape(alt)}">',
            f"<title>{escape(alt)}</title>",
        ]
        self.box(0, 0, width, height, fill=palette.ground, radius=6)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 14,
        color: str = "",
        anchor: str = "start",
        is_bold: bool = False,
    ) -> None:
        """Write one line; ``y`` is its base line."""
        weight = ' font-weight="bold"' if is_bold else ""
        side = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self._lines.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{color or self.palette.ink}"{side}{weight}>'
            f"{escape(words)}</text>"
        )

    def box(
        self, x: float, y: float, width: float, height: float, *, fill: str, edge: str = "", radius: float = 3
    ) -> None:
        """Draw a rectangle; ``edge`` is the colour of its line."""
        stroke = f' stroke="{edge}" stroke-width="1.5"' if edge else ""
        self._lines.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" fill="{fill}"{stroke}/>'
        )

    def line(self, points: Sequence[tuple[float, float]], *, color: str, width: float = 1.5, dashes: str = "") -> None:
        """Draw from point to point."""
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self._lines.append(
            f'<path d="{path}" fill="none" stroke="{color}" stroke-width="{width:g}" stroke-linecap="round"{dashed}/>'
        )

    def arrow(self, points: Sequence[tuple[float, float]], *, color: str, width: float = 1.5, dashes: str = "") -> None:
        """Draw from point to point, with a head at the last."""
        self.line(points, color=color, width=width, dashes=dashes)
        (x0, y0), (x, y) = points[-2:]
        length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
        along, across = ((x - x0) / length, (y - y0) / length), (-(y - y0) / length, (x - x0) / length)
        ends = [(x - 7 * along[0] + side * across[0], y - 7 * along[1] + side * across[1]) for side in (4, -4)]
        path = f"M{x:g} {y:g} " + " ".join(f"L{a:.1f} {b:.1f}" for a, b in ends) + " Z"
        self._lines.append(f'<path d="{path}" fill="{color}"/>')

    def response(self, x: float, y: float, size: float, *, is_right: bool, use: Use = Use.TRAINS) -> None:
        """Draw a response as a square: a tick if it is right, a cross if not; filled if it trains."""
        color = self.palette.right if is_right else self.palette.wrong
        fill, edge, mark = {
            Use.TRAINS: (color, "", self.palette.on_color),
            Use.SURPLUS: (self.palette.ground, color, color),
            Use.WASTED: (self.palette.grey, "", self.palette.on_grey),
        }[use]
        inset = 0.75 if edge else 0.0
        self.box(x + inset, y + inset, size - 2 * inset, size - 2 * inset, fill=fill, edge=edge)
        strokes = (
            [((0.25, 0.53), (0.43, 0.72), (0.76, 0.3))]
            if is_right
            else [((0.3, 0.3), (0.7, 0.7)), ((0.7, 0.3), (0.3, 0.7))]
        )
        for stroke in strokes:
            self.line([(x + a * size, y + b * size) for a, b in stroke], color=mark, width=size / 9)

    def svg(self) -> str:
        """Return the file's text."""
        return "\n".join([*self._lines, "</svg>"]) + "\n"
