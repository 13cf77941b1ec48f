"""The pictures of the page."""

from __future__ import annotations

import numpy as np

from ada_lightning.analysis.report.drawing import INK, Drawing, blank, finished, tidy
from ada_lightning.audit.figures import LOGGED, Audit
from ada_lightning.audit.pass_rates import BINS
from ada_lightning.audit.records import Cause

GRADIENT = "#2f9e6e"
COLORS = {
    Cause.ALL_WRONG: "#cf4f74",
    Cause.ALL_RIGHT: "#3d82c4",
    Cause.NOT_GRADED: "#7d8590",
    Cause.ABORTED: "#5f8f9c",
    Cause.FILTERED: "#a06bd1",
    Cause.MASKED: "#a88a1c",
    Cause.NOT_KEPT: "#d9752e",
    Cause.ZERO_ADVANTAGE: "#c9a58b",
}
LABELS = {
    Cause.ALL_WRONG: "all wrong",
    Cause.ALL_RIGHT: "all right",
    Cause.NOT_GRADED: "no reward",
    Cause.ABORTED: "aborted",
    Cause.FILTERED: "filtered",
    Cause.MASKED: "masked",
    Cause.NOT_KEPT: "not kept",
    Cause.ZERO_ADVANTAGE: "advantage 0",
}
_NARROW = 0.055
"""Pieces of the bar below this share have no room for a number."""


def pieces(audit: Audit) -> list[tuple[str, str, float]]:
    """Return (label, colour, share) of the bar of all tokens, what gave a gradient first."""
    if not audit.gathered.tells_gradient:
        return [("not known", COLORS[Cause.NOT_GRADED], 1.0)]
    lost = [(cause, audit.figures[f"lost:{cause.name}"].value) for cause in Cause]
    found = [("gave a gradient", GRADIENT, 1.0 - audit.figures["no_gradient"].value)]
    return found + [(LABELS[cause], COLORS[cause], share) for cause, share in lost if share > 0]


def draw_causes(audit: Audit) -> Drawing:
    """Draw all tokens as one bar, a piece for each cause."""
    with blank(9.4, 0.95) as figure:
        axes = figure.subplots()
        left = 0.0
        for _, color, share in pieces(audit):
            axes.barh(0, share, left=left, color=color, height=0.8)
            if share >= _NARROW:
                axes.text(
                    left + share / 2, 0, f"{100 * share:.0f} %", ha="center", va="center", color="white", fontsize=11
                )
            left += share
        axes.set_xlim(0, 1)
        axes.set_axis_off()
        return finished(figure, "causes", f"share of {audit.gathered.unit.value} by what became of them")


def draw_pass_rates(audit: Audit) -> Drawing:
    """Draw the classes of pass rates, as fitted and as raw shares show them."""
    with blank(5.6, 4.3) as figure:
        axes = figure.subplots()
        places = np.arange(len(BINS))
        axes.bar(places, audit.mixture.shares(), width=0.78, color=GRADIENT, label="fitted: chance taken out")
        axes.plot(places, audit.raw, "o", color=INK, markersize=5, label="raw shares of groups")
        axes.set_xticks(places, BINS)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        tidy(axes, "How often a prompt is solved")
        axes.grid(visible=False, axis="x")
        axes.set_xlabel("pass rate of the prompt")
        axes.legend(frameon=False, fontsize=9)
        return finished(figure, "pass_rates", "distribution of pass rates")


def draw_rules(audit: Audit) -> Drawing | None:
    """Draw comparisons per length of every rule with its interval; None where no rule was tried."""
    if len(audit.rules) < 2:
        return None
    rows = audit.rules
    with blank(12.4, 0.9 + 0.24 * len(rows)) as figure:
        axes = figure.subplots()
        axes.axvline(rows[0].comparisons_per_1k.value, color=INK, alpha=0.35, linewidth=1, linestyle="--")
        for place, row in enumerate(rows):
            found = row.comparisons_per_1k
            color = INK if row.name == LOGGED else GRADIENT
            if found.low is not None and found.high is not None:
                axes.plot([found.low, found.high], [place, place], color=color, linewidth=1.6, alpha=0.8)
            filled = "none" if row.is_extrapolated else color
            axes.plot([found.value], [place], "o", color=color, markerfacecolor=filled, markersize=5.5)
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        tidy(axes, f"Comparisons of right with wrong per 1,000 {audit.gathered.unit.value}")
        axes.grid(visible=False, axis="y")
        return finished(figure, "rules", f"comparisons of right with wrong per 1,000 {audit.gathered.unit.value}")
