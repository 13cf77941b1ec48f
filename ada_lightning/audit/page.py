"""The audit as one HTML page that needs no other file, and its numbers as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ada_lightning.audit.advice import LIMIT, advice, best_rule
from ada_lightning.audit.figures import Audit
from ada_lightning.audit.intervals import Estimate
from ada_lightning.audit.pass_rates import BINS
from ada_lightning.audit.pictures import draw_causes, draw_pass_rates, draw_rules, pieces
from ada_lightning.audit.records import Cause
from ada_lightning.audit.sentences import about, about_intervals, about_rules, facts, headline
from ada_lightning.audit.spelling import number, percent
from ada_lightning.run.files import replacing

Named = Sequence[tuple[str, Audit]]


def write_page(audits: Named, output: Path) -> list[Path]:
    """Write the page, and ``<name>.json`` beside it.

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
