"""Cards as one HTML page with a picture that needs no other file, and their numbers as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ada_lightning.analysis.report.drawing import Drawing, blank, finished, style, tidy
from ada_lightning.objective.card import Card, as_json
from ada_lightning.objective.sentences import Section, facts, sections, table, version_line
from ada_lightning.objective.weights import FINE
from ada_lightning.run.files import replacing

_TICKS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
_LOWEST = 0.05
"""Of the picture; lines leave it there."""


def write_page(cards: Sequence[Card], output: Path) -> list[Path]:
    """Write the page, and ``<name>.json`` next to it.

    Returns:
        Both files.
    """
    numbers = output.with_suffix(".json")
    content = json.dumps([as_json(card) for card in cards], indent=1, allow_nan=False) + "\n"
    for path, data in ((output, as_html(cards).encode("utf-8", errors="replace")), (numbers, content.encode())):
        with replacing(path) as temporary:
            temporary.write_bytes(data)
    return [output, numbers]


def as_html(cards: Sequence[Card]) -> str:
    """Render the page. Names of files and keys may be anybody's: everything is escaped."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = ChoiceLoader([PackageLoader("ada_lightning.objective"), PackageLoader("ada_lightning.analysis.report")])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["svg"] = lambda drawing: Markup(drawing.svg)
    sheets = [loader.get_source(environment, name)[0] for name in ("page.css", "objective.css")]
    return environment.get_template("objective.html.j2").render(
        style_sheet=Markup("\n".join(sheets)),
        picture=draw_weights(cards),
        cards=[_parts(card, index) for index, card in enumerate(cards)],
        facts=compared(cards),
    )


def compared(cards: Sequence[Card]) -> list[tuple[str, tuple[str, ...], bool]]:
    """Return (what, a cell for each card, whether they differ): what each update does, row by row."""
    rows = [facts(card) for card in cards]
    return [
        (title, cells := tuple(row[title] for row in rows), len(set(cells)) > 1) for title in (rows[0] if rows else ())
    ]


def draw_weights(cards: Sequence[Card], *, names: bool = False) -> Drawing | None:
    """Draw the weight of a prompt by its pass rate, a line for each card; None where no card has any.

    Args:
        cards: whose weights.
        names: whether the picture has a legend: where no page around it has one.
    """
    if not any(card.curve for card in cards):
        return None
    with blank(7.2, 3.7) as figure:
        axes = figure.subplots()
        for index, card in enumerate(cards):
            if card.curve:
                color, dash = style(index)
                values = [value if value > 0 else math.nan for value in card.curve]
                axes.plot(FINE, values, color=color, linestyle=dash, linewidth=2.2, label=card.name)
        axes.axhline(1.0, color="#7d8590", linewidth=1, linestyle=":")
        axes.text(0.955, 1.0, " mean\n pass rate", va="center", fontsize=8, clip_on=False)
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.set_ylim(max(min(low, 0.45), _LOWEST), max(high, 2.2))
        low, high = axes.get_ylim()
        axes.set_yticks([tick for tick in _TICKS if low <= tick <= high], minor=False)
        axes.set_yticks([], minor=True)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlim(FINE[0], FINE[-1])
        tidy(axes, "Weight of a prompt's gradient, relative to a prompt with pass rate 1/2")
        axes.set_xlabel("pass rate of the prompt")
        if names:
            axes.legend(frameon=False, fontsize=9)
        return finished(figure, "weights", "weight of a prompt's gradient by its pass rate")


def _parts(card: Card, index: int) -> dict[str, Any]:
    """What the template shows of a card."""
    color, _ = style(index)
    found: list[Section] = sections(card)
    return {
        "name": card.name,
        "color": color,
        "version": version_line(card),
        "headline": found[0].sentences[0],
        "remedy": found[1].sentences[0],
        "sections": [Section(found[0].title, found[0].sentences[1:]), *found[1:]],
        "table": table(card),
        "is_checked": card.is_checked,
    }
