"""Bars of measured and computed figures: GiB by part of a run, and seconds of a rollout by how it is drawn.

``gpu_memory`` reads ``memory_plan.json``, ``rollout_speed`` reads ``rollout.json``, both of ``docs/performance``.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from research.benchmarks.report import FOLDER
from research.pictures.svg import Drawing

LEFT, RIGHT, TOP, WIDTH = 190, 690, 58, 760
LIMIT = "#c0392b"
"""Colour of the line at a bar's limit."""
PARTS = {
    "weights": ("weights", "#4c78a8"),
    "gradients": ("gradients", "#9ecae9"),
    "optimizer": ("Adam", "#72b7b2"),
    "activations": ("activations, logits", "#f2cf5b"),
    "engine_weights": ("engine's weights", "#b279a2"),
    "kv_cache": ("keys and values", "#d6a5c9"),
    "reserve": ("allowance (a guess)", "#d0d0d0"),
}
"""Of the plan: what stands in the legend, and its colour."""
WAYS = {
    "vllm": ("raw vLLM, all lengths known", "#999999"),
    "ahead": ("this project", "#4c78a8"),
    "barrier": ("rounds", "#e0a458"),
}
"""Of a rollout: the same."""


@dataclass(frozen=True)
class Segment:
    """A part of a bar."""

    start: float
    """In the figure's unit, like ``length``."""
    length: float
    color: str


@dataclass(frozen=True)
class Bar:
    """A row of a picture."""

    title: str
    subtitle: str
    segments: Sequence[Segment]
    limit: float = 0.0
    """A line across the bar, in the figure's unit; 0: none."""
    note: str = ""
    """Behind the bar."""
    height: int = 30
    """In the drawing's unit, like ``space``."""
    space: int = 32
    """To the next bar."""


def gpu_memory() -> str:
    """Draw what the plans of docs/gpu.md need, next to what the card has."""
    found = json.loads((FOLDER / "memory_plan.json").read_text(encoding="utf-8"))
    bars = []
    for row in found["without_vllm"]:
        sizes = {"reserve": found["reserve_gib"], **row["gib"]}
        sizes["activations"] += sizes.pop("logits")
        segments, at = [], 0.0
        for part, (_, color) in PARTS.items():
            segments.append(Segment(at, sizes[part], color))
            at += sizes[part]
        limit = float(row["gpus"].split()[2])
        note = f"{row['total_gib']:.0f} GiB" + ("" if row["fits"] else ", does not fit")
        bars.append(Bar(row["name"], f"card of {limit:g} GiB", segments, limit, note))
    return draw(
        "GiB that a run of a 1.5B model needs with rollout=transformers: computed, not measured",
        bars,
        list(PARTS.values()),
        scale=max(bar.limit for bar in bars),
    )


def rollout_speed() -> str:
    """Draw the seconds of one rollout by the way it is drawn; medians, two CPU cores."""
    rows = json.loads((FOLDER / "rollout.json").read_text(encoding="utf-8"))["rows"]
    seconds = {(row["work"], row["prompts"], row["way"]): statistics.median(row["seconds"]) for row in rows}
    bars = []
    for work, prompts in dict.fromkeys((row["work"], row["prompts"]) for row in rows):
        for way, (_, color) in WAYS.items():
            length = seconds[work, prompts, way]
            is_last = way == list(WAYS)[-1]
            title = f"{work}, {prompts} prompts" if way == "ahead" else ""
            bars.append(
                Bar(title, "", [Segment(0.0, length, color)], 0.0, f"{length:.1f} s", 18, space=20 if is_last else 3)
            )
    scale = max(seconds[work, prompts, way] for work, prompts, way in seconds if way in WAYS)
    return draw("Seconds of one rollout: two CPU cores, vLLM, 135M model", bars, list(WAYS.values()), scale=scale)


def draw(title: str, bars: Sequence[Bar], legend: Sequence[tuple[str, str]], *, scale: float) -> str:
    """Return an SVG of horizontal bars.

    Args:
        title: stands above them, and is what a screen reader says.
        bars: from above.
        legend: names and colours.
        scale: what of the figure's unit ends at the right.
    """
    under = TOP + sum(bar.height + bar.space for bar in bars)
    drawing = Drawing(WIDTH, under + 24 * -(-len(legend) // 4) + 4, title)
    drawing.text(16, 28, title, is_bold=True)
    top = TOP
    for bar in bars:
        _draw_bar(drawing, bar, top, (RIGHT - LEFT) / scale)
        top += bar.height + bar.space
    for number, (name, color) in enumerate(legend):
        x, y = 16 + 185 * (number % 4), under + 24 * (number // 4)
        drawing.box(x, y, 12, 12, fill=color, radius=0)
        drawing.text(x + 18, y + 11, name, size=12)
    return drawing.svg()


def _draw_bar(drawing: Drawing, bar: Bar, top: float, unit: float) -> None:
    """Draw one bar; ``unit`` is the length of one of the figure's unit."""
    middle = top + bar.height / 2
    if bar.title:
        drawing.text(16, middle - 2 if bar.subtitle else middle + 4, bar.title, size=13)
    if bar.subtitle:
        drawing.text(16, middle + 14, bar.subtitle, size=12, color=drawing.palette.faint)
    for segment in bar.segments:
        x, width = LEFT + segment.start * unit, segment.length * unit
        drawing.box(x, top, width, bar.height, fill=segment.color, radius=0)
    if bar.limit:
        x = LEFT + bar.limit * unit
        drawing.line([(x, top - 6), (x, top + bar.height + 6)], color=LIMIT, width=2)
    if bar.note:
        end = LEFT + unit * sum(segment.length for segment in bar.segments)
        drawing.text(end + 8, middle + 4, bar.note, size=12)
