"""The audit as one HTML page with pictures that needs no other file, and its numbers as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ada_lightning.analysis.report.drawing import INK, Drawing, blank, finished, tidy
from ada_lightning.audit.figures import LOGGED, Audit
from ada_lightning.audit.intervals import Estimate, number, percent
from ada_lightning.audit.pass_rates import BINS
from ada_lightning.audit.records import Cause
from ada_lightning.audit.sentences import LIMIT, about, about_intervals, about_rules, advice, best_rule, facts, headline
from ada_lightning.run.files import replacing

Named = Sequence[tuple[str, Audit]]
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


def write_page(audits: Named, output: Path) -> list[Path]:
    """Write the page, and ``<name>.json`` next to it.

    Returns:
        Both files.
    """
    numbers = output.with_suffix(".json")
    content = json.dumps(as_json(audits), indent=1, allow_nan=False) + "\n"
    for path, data in ((output, as_html(audits).encode("utf-8", errors="replace")), (numbers, content.encode())):
        with replacing(path) as temporary:
            temporary.write_bytes(data)
    return [output, numbers]


def as_json(audits: Named) -> list[dict[str, Any]]:
    """Return every figure. ``null``: not a number, or no interval."""
    return [
        _finite(
            {
                "name": name,
                "format": audit.log.format,
                "unit": audit.gathered.unit.value,
                "steps": list(audit.steps),
                "groups": len(audit.gathered.groups),
                "prompts": audit.gathered.num_prompts,
                "prompts_with_signal": audit.num_signal_prompts,
                "threshold": audit.gathered.threshold,
                "sampling": audit.gathered.sampling.value,
                "order": audit.log.order.value,
                "figures": {key: asdict(value) for key, value in audit.figures.items()},
                "pass_rates": {"classes": list(BINS), "fitted": audit.mixture.shares(), "raw": audit.raw},
                "rules": [asdict(row) for row in audit.rules],
                "why_no_rules": audit.why_no_rules,
                "advice": advice(audit),
                "holes": [asdict(hole) for hole in audit.holes],
                "remarks": audit.log.remarks,
            }
        )
        for name, audit in audits
    ]


def as_html(audits: Named) -> str:
    """Render the page. Names of files and columns may be anybody's: everything is escaped."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = ChoiceLoader([PackageLoader("ada_lightning.audit"), PackageLoader("ada_lightning.analysis.report")])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"percent": percent, "number": number}
    environment.filters["plain"] = lambda value: number(Estimate(value))
    environment.filters["svg"] = lambda drawing: Markup(drawing.svg)
    sheets = [loader.get_source(environment, name)[0] for name in ("page.css", "audit.css")]
    return environment.get_template("audit.html.j2").render(
        style_sheet=Markup("\n".join(sheets)), logs=[_parts(name, audit) for name, audit in audits], limit=LIMIT
    )


def _parts(name: str, audit: Audit) -> dict[str, Any]:
    """What the template shows of a log."""
    causes = [(cause.value, audit.figures[f"lost:{cause.name}"]) for cause in Cause]
    return {
        "name": name,
        "audit": audit,
        "unit": audit.gathered.unit.value,
        "headline": headline(audit),
        "about": about(audit),
        "pieces": pieces(audit),
        "causes": [(text, found) for text, found in causes if found.value > 0],
        "bar": draw_causes(audit),
        "pass_rates": draw_pass_rates(audit),
        "rules": draw_rules(audit),
        "best": best_rule(audit),
        "facts": facts(audit),
        "about_intervals": about_intervals(audit),
        "about_rules": about_rules(audit),
        "advice": advice(audit),
    }


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
