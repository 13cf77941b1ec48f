"""One training step over time: blocks, a block ahead, grading, updates and the weights' way to the engine. A sketch."""

from __future__ import annotations

from collections.abc import Sequence

from research.pictures.svg import Drawing, Use

WIDTH, LEFT, RIGHT = 640, 104, 628
START, END = 186, 470
"""Where drawing begins and ends."""
SQUARE, GAP = 15, 2
BLOCK = 4 * (SQUARE + GAP) - GAP + 8
"""Width of a block of four."""


def draw() -> str:
    """Return the picture as SVG."""
    alt = (
        "One training step over time. Prompts are chosen and weights synced. Then the engine draws blocks of four "
        "responses for each prompt until it has two right and two wrong ones; an easy prompt needs three blocks, a "
        "mixed one one, a hard one three. Blocks start without waiting for other prompts, and one that was drawn ahead "
        "is dropped. Grading runs next to it. Then responses are kept and weighed, the policy is updated, and history "
        "learns."
    )
    drawing = Drawing(WIDTH, 404, alt)
    _draw_phases(drawing, 40)
    _draw_prompts(drawing, 100)
    _draw_workers(drawing, 258)
    y = 388.0
    drawing.response(12, y - 14, 18, is_right=True)
    drawing.text(36, y, "right", size=14)
    drawing.response(92, y - 14, 18, is_right=False)
    drawing.text(116, y, "wrong", size=14)
    _block(drawing, 180, y - 18, "", color=drawing.palette.faint, width=40)
    drawing.text(228, y, "drawn ahead, dropped", size=14)
    drawing.text(392, y, "goal: 2 right and 2 wrong, at most 32", size=14, color=drawing.palette.faint)
    return drawing.svg()


def _draw_phases(drawing: Drawing, top: float) -> None:
    palette = drawing.palette
    drawing.text(12, top - 14, "time", size=14, color=palette.faint)
    drawing.arrow([(52, top - 19), (RIGHT, top - 19)], color=palette.faint)
    phases = (
        (12, 92, "choose", "prompts", palette.wrong),
        (106, START - 108, "sync", "weights", palette.purple),
        (START, END - START, "draw blocks and grade", "until every prompt is done", palette.blue),
        (END + 2, 54, "keep,", "weigh", palette.wrong),
        (END + 58, 56, "update", "policy", palette.purple),
        (END + 116, 42, "learn", "", palette.wrong),
    )
    for x, width, first, second, color in phases:
        drawing.box(x, top, width, 40, fill=color)
        for dy, words in ((18, first), (34, second)) if second else ((25, first),):
            drawing.text(x + width / 2, top + dy, words, size=13.5, color="#ffffff", anchor="middle")


def _draw_prompts(drawing: Drawing, top: float) -> None:
    """Draw the blocks of three prompts."""
    rows = (
        ("easy", "prompt A", ("1111", "1101", "0111"), 2),
        ("mixed", "prompt B", ("1010",), 0),
        ("hard", "prompt C", ("0000", "0001", "0010"), 0),
    )
    starts = ((START, START + 90, START + 176), (START,), (START, START + 98, START + 200))
    ends = ("", "done: no waiting for others", "")
    for row, ((kind, name, blocks, ahead), lefts) in enumerate(zip(rows, starts, strict=True)):
        y = top + 46 * row
        drawing.text(12, y + 12, name, size=14, is_bold=True)
        drawing.text(12, y + 28, kind, size=13, color=drawing.palette.faint)
        for left, block in zip(lefts, blocks, strict=True):
            _block(drawing, left, y + 2, block)
        if ends[row]:
            drawing.text(lefts[-1] + BLOCK + 10, y + 21, ends[row], size=13, color=drawing.palette.faint)
        if ahead:
            _block(drawing, lefts[-1] + BLOCK + 6, y + 2, "", color=drawing.palette.faint, width=40)


def _block(
    drawing: Drawing, x: float, y: float, responses: Sequence[str], color: str = "", width: float = BLOCK
) -> None:
    """Draw a block's frame and responses: 1 is a right one; a dropped block is a dashed frame."""
    palette = drawing.palette
    if color:
        corners = [(x, y), (x + width, y), (x + width, y + 24), (x, y + 24), (x, y)]
        drawing.line(corners, color=color, width=1.5, dashes="4 3")
        return
    drawing.box(x, y, width, 24, fill=palette.panel, edge=palette.blue)
    for index, each in enumerate(responses):
        drawing.response(x + 4 + index * (SQUARE + GAP), y + 4.5, SQUARE, is_right=each == "1", use=Use.TRAINS)


def _draw_workers(drawing: Drawing, top: float) -> None:
    """Draw what engine, graders and trainer do meanwhile."""
    palette = drawing.palette
    drawing.line([(12, top - 12), (RIGHT, top - 12)], color=palette.grey, width=1)
    engine = "full: likely blocks start early"
    bars = (
        ("engine", START, END - START, engine, palette.blue),
        ("graders", START + 14, END - START - 12, "each response as it ends", palette.right),
        ("trainer", END + 58, 56, "", palette.purple),
    )
    for row, (name, x, width, words, color) in enumerate(bars):
        y = top + 32 * row
        drawing.text(12, y + 17, name, size=14, is_bold=True)
        drawing.box(LEFT, y, RIGHT - LEFT, 25, fill=palette.panel)
        drawing.box(x, y, width, 25, fill=color)
        drawing.text(x + width / 2, y + 17, words, size=13.5, color="#ffffff", anchor="middle")
    y = top + 64
    drawing.text((START + END) / 2, y + 17, "waits, or streams complete prompts", size=13.5, anchor="middle")
