"""Where the seconds went, by phase."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.analysis.report.drawing import Drawing, blank, finished, tidy
from ada_lightning.analysis.report.method import Method

COLORS = {
    "rollout": "#3d82c4",
    "grade": "#2f9e6e",
    "update": "#d9752e",
    "sync": "#a06bd1",
    "eval": "#7d8590",
    "checkpoint": "#a88a1c",
    "preview": "#a9b4bf",
    "start": "#c9a58b",
}
"""Of the phases, those of training first."""


def phase_seconds(method: Method) -> dict[str, float]:
    """Seconds by phase, mean over the method's runs that logged any; training's phases first."""
    logged = [run.phase_seconds for run in method.runs if run.phase_seconds]
    phases = {phase for seconds in logged for phase in seconds}
    order = [*(phase for phase in COLORS if phase in phases), *sorted(phases - COLORS.keys())]
    return {phase: sum(seconds.get(phase, 0.0) for seconds in logged) / len(logged) for phase in order}


def draw_phases(methods: Sequence[Method]) -> Drawing | None:
    """Draw a bar per method, one piece per phase; None where nobody logged seconds."""
    seconds = [phase_seconds(method) for method in methods]
    phases = list(dict.fromkeys(phase for by_phase in seconds for phase in by_phase))
    if not phases:
        return None
    with blank(12.4, 1.05 + 0.34 * len(methods)) as figure:
        axes = figure.subplots()
        left = [0.0] * len(methods)
        for phase in [*(phase for phase in COLORS if phase in phases), *(p for p in phases if p not in COLORS)]:
            widths = [by_phase.get(phase, 0.0) / 60 for by_phase in seconds]
            axes.barh(
                range(len(methods)), widths, left=left, label=phase, color=COLORS.get(phase, "#5f8f9c"), height=0.62
            )
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set_yticks(range(len(methods)), [method.name for method in methods])
        axes.invert_yaxis()
        tidy(axes, "")
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("minutes, mean over runs")
        figure.legend(loc="outside upper left", ncols=len(phases), frameon=False, handlelength=1, columnspacing=1.3)
        return finished(figure, "phases", "where the time goes")
