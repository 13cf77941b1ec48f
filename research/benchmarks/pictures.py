"""Pictures of the benchmarks' figures, as SVG: ``python -m research.benchmarks.pictures``.

``docs/gpu_memory.svg`` is drawn from ``memory_plan.json``, ``docs/rollout_speed.svg`` from ``rollout.json``. Both stand
on a light ground of their own, so that they can be read in a dark page too. A test holds that they show the figures.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from research.benchmarks.report import DOCS, FOLDER

LEFT, RIGHT, TOP = 190, 690, 58
WIDTH = 760
INK, GREY = "#222222", "#666666"
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
    colour: str


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
    """Pixels, like ``space``."""
    space: int = 32
    """To the next bar."""


def main() -> None:
    """Draw all pictures."""
    for name, draw in PICTURES.items():
        (DOCS / name).write_text(draw(), encoding="utf-8")
        print(f"docs/{name}")


def gpu_memory() -> str:
    """Draw what the plans of docs/gpu.md need, next to what the card has."""
    found = json.loads((FOLDER / "memory_plan.json").read_text(encoding="utf-8"))
    bars = []
    for row in found["without_vllm"]:
        sizes = {"reserve": found["reserve_gib"], **row["gib"]}
        sizes["activations"] += sizes.pop("logits")
        segments, at = [], 0.0
        for part, (_, colour) in PARTS.items():
            segments.append(Segment(at, sizes[part], colour))
            at += sizes[part]
        limit = float(row["gpus"].split()[2])
        note = f"{row['total_gib']:.0f} GiB" + ("" if row["fits"] else ", does not fit")
        bars.append(Bar(row["name"], f"card of {limit:g} GiB", segments, limit, note))
    return drawing(
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
        for way, (_, colour) in WAYS.items():
            length = seconds[work, prompts, way]
            is_last = way == list(WAYS)[-1]
            title = f"{work}, {prompts} prompts" if way == "ahead" else ""
            bars.append(
                Bar(title, "", [Segment(0.0, length, colour)], 0.0, f"{length:.1f} s", 18, space=20 if is_last else 3)
            )
    scale = max(seconds[work, prompts, way] for work, prompts, way in seconds if way in WAYS)
    return drawing("Seconds of one rollout: two CPU cores, vLLM, 135M model", bars, list(WAYS.values()), scale=scale)


def drawing(title: str, bars: Sequence[Bar], legend: Sequence[tuple[str, str]], *, scale: float) -> str:
    """Return an SVG of horizontal bars.

    Args:
        title: stands above them, and is what a screen reader says.
        bars: from above.
        legend: names and colours.
        scale: what of the figure's unit ends at the right.
    """
    unit = (RIGHT - LEFT) / scale
    lines, top = [_text(16, 28, title, size=14, weight="bold")], TOP
    for bar in bars:
        lines += _drawn(bar, top, unit)
        top += bar.height + bar.space
    for number, (name, colour) in enumerate(legend):
        x, y = 16 + 185 * (number % 4), top + 24 * (number // 4)
        lines += [
            f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>',
            _text(x + 18, y + 11, name, size=12),
        ]
    height = top + 24 * -(-len(legend) // 4) + 4
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}" font-family="Helvetica, Arial, sans-serif">'
    )
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>', *lines, "</svg>", ""])


def _drawn(bar: Bar, top: int, unit: float) -> list[str]:
    """Return the lines of a bar; ``unit``: pixels."""
    middle = top + bar.height / 2
    lines = [_text(16, middle - 2 if bar.subtitle else middle + 4, bar.title)] if bar.title else []
    if bar.subtitle:
        lines.append(_text(16, middle + 14, bar.subtitle, size=12, colour=GREY))
    for segment in bar.segments:
        x, width = LEFT + segment.start * unit, segment.length * unit
        lines.append(
            f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{bar.height}" fill="{segment.colour}" '
            'stroke="#ffffff" stroke-width="0.5"/>'
        )
    if bar.limit:
        x = LEFT + bar.limit * unit
        lines.append(
            f'<line x1="{x:.1f}" y1="{top - 6}" x2="{x:.1f}" y2="{top + bar.height + 6}" stroke="#c0392b" '
            'stroke-width="2"/>'
        )
    end = LEFT + unit * sum(segment.length for segment in bar.segments)
    return [*lines, _text(end + 8, middle + 4, bar.note, size=12)]


def _text(
    x: float, y: float, said: str, *, size: int = 13, anchor: str = "start", weight: str = "normal", colour: str = INK
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(said)}</text>'
    )


PICTURES: dict[str, Callable[[], str]] = {"gpu_memory.svg": gpu_memory, "rollout_speed.svg": rollout_speed}

if __name__ == "__main__":
    main()
