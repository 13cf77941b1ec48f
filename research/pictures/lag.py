"""Steps over time with no lag, a lag of one and a lag of two: which policy version samples, and which update makes it.

Starts follow the rule of ``rollout.max_staleness``: step s is sampled when the step before has been sampled and step
``s - k - 1`` has been learned from, and it is trained when it has been sampled and the step before has been trained.
Durations are made up: steps of unequal length, updates of equal length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from research.pictures.svg import Drawing

SAMPLING = (4.0, 5.0, 2.5, 5.0)
"""Seconds of each step."""
UPDATE = 4.0
LAGS = (0, 1, 2)
COLORS = ("#3a6ea5", "#1a7f64", "#b0661a", "#7a56a8", "#a8324e", "#59636e")
"""Of the policy versions."""
WIDTH, LEFT, TOP, ROW, BAR = 640, 84, 80, 112, 30


@dataclass(frozen=True)
class Step:
    """When a step is sampled and trained, and the version that samples it."""

    version: int
    sampled: tuple[float, float]
    trained: tuple[float, float]


def schedule(lag: int, sampling: Sequence[float] = SAMPLING, update: float = UPDATE) -> list[Step]:
    """Return the steps of a run with one update a step.

    Args:
        lag: ``rollout.max_staleness``.
        sampling: seconds that each step's rollout takes.
        update: seconds of each update.
    """
    steps: list[Step] = []
    for index, seconds in enumerate(sampling):
        version = max(0, index - lag)
        learned = steps[version - 1].trained[1] if version else 0.0
        start = max(steps[-1].sampled[1] if steps else 0.0, learned)
        sampled = (start, start + seconds)
        begin = max(sampled[1], steps[-1].trained[1] if steps else 0.0)
        steps.append(Step(version, sampled, (begin, begin + update)))
    return steps


def draw() -> str:
    """Return the picture as SVG."""
    runs = {lag: schedule(lag) for lag in LAGS}
    longest = max(steps[-1].trained[1] for steps in runs.values())
    ends = ", ".join(f"{steps[-1].trained[1]:g} seconds with a lag of {lag}" for lag, steps in runs.items())
    alt = (
        f"Engine and trainer over time for {len(SAMPLING)} steps. Without a lag they take turns. With a lag the engine "
        f"samples the next step with an older policy version while the trainer updates. All is done after {ends}."
    )
    drawing = Drawing(WIDTH, TOP + ROW * len(LAGS) - 6, alt)
    drawing.text(12, 26, "Lag: which policy version samples which step", size=18, is_bold=True)
    drawing.text(
        12,
        50,
        "Same colour: the version that an update makes, and the steps it samples.",
        size=14,
        color=drawing.palette.faint,
    )
    scale = (WIDTH - LEFT - 14) / longest
    for row, (lag, steps) in enumerate(runs.items()):
        _draw_run(drawing, lag, steps, TOP + row * ROW, scale)
    return drawing.svg()


def _draw_run(drawing: Drawing, lag: int, steps: Sequence[Step], top: float, scale: float) -> None:
    palette = drawing.palette
    drawing.line([(12, top - 6), (WIDTH - 12, top - 6)], color=palette.grey, width=1)
    title = "no lag: in turns" if lag == 0 else f"lag {lag}"
    drawing.text(12, top + 14, title, size=15, is_bold=True)
    drawing.text(12, top + 44, "engine", size=14, color=palette.faint)
    drawing.text(12, top + 80, "trainer", size=14, color=palette.faint)
    end = LEFT + scale * steps[-1].trained[1]
    for y in (top + 24, top + 60):
        drawing.box(LEFT, y, end - LEFT, BAR, fill=palette.panel)
    for index, step in enumerate(steps):
        _bar(drawing, step.sampled, top + 24, scale, f"step {index}", f"by v{step.version}", COLORS[step.version])
        _bar(drawing, step.trained, top + 60, scale, f"step {index}", f"makes v{index + 1}", COLORS[index + 1])


def _bar(
    drawing: Drawing, span: tuple[float, float], y: float, scale: float, first: str, second: str, color: str
) -> None:
    x, width = LEFT + scale * span[0], scale * (span[1] - span[0])
    drawing.box(x + 1, y, width - 2, BAR, fill=color)
    for dy, words in ((13, first), (26, second)):
        drawing.text(x + width / 2, y + dy, words, size=12, color="#ffffff", anchor="middle")
