"""Puts a report together: the page, its pictures as files, and its numbers as JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ada_lightning.analysis.report.curves import (
    HELDOUT,
    TRAINING,
    Axis,
    draw,
    draw_phases,
    phase_seconds,
    points_per_mean,
)
from ada_lightning.analysis.report.drawing import Drawing, style
from ada_lightning.analysis.report.headline import (
    Headline,
    Spread,
    headline,
    heldout_after,
    heldout_before,
    spent,
)
from ada_lightning.analysis.report.hints import draw_hints
from ada_lightning.analysis.report.method import Method, Setting, differences, differing_keys
from ada_lightning.analysis.report.prompts import draw_prompts
from ada_lightning.analysis.report.run import Run
from ada_lightning.analysis.report.samples import Comparison, compare_samples
from ada_lightning.methods.curriculum.auto import sentence_of_change

COUNTED = {
    "rollout/grader_failures": "responses whose grader failed",
    "rollout/skipped_prompts": "prompts skipped",
}
"""Counts of a step that are 0 in a run without trouble."""
COUNTED_SO_FAR = {
    "rollout/engine_restarts": "engine restarts",
    "train/skipped_updates": "updates skipped",
}
"""Counts since the start of the run, or since a resume, that are 0 in a run without trouble."""

MEASUREMENT = ("callbacks.evaluation.num_", "callbacks.evaluation.sampling.", "data.source.", "reward.reward.")
"""Settings that decide how the held-out figure is measured."""


@dataclass(frozen=True)
class Report:
    """Everything a page says."""

    title: str
    methods: list[Method]
    table: Headline
    differing: list[Setting]
    shared: list[Setting]
    heldout: dict[Axis, Drawing]
    training: dict[Axis, list[Drawing]]
    steps_per_point: int
    """Steps that a point of a training curve is the mean of."""
    phases: Drawing | None
    prompts: list[Drawing]
    samples: list[Comparison]
    notes: list[Note]

    @property
    def drawings(self) -> list[Drawing]:
        """Every picture, in the order of the page."""
        training = [drawing for by_axis in self.training.values() for drawing in by_axis]
        return [*self.heldout.values(), *training, *([self.phases] if self.phases else []), *self.prompts]


def make_report(
    methods: Sequence[Method],
    *,
    title: str,
    level: float | None = None,
    num_samples: int = 6,
    remarks: Sequence[str] = (),
) -> Report:
    """Compute and draw what at least one method has.

    Args:
        methods: what is compared.
        title: stands above the page.
        level: held-out avg@k to reach, whose cost is compared; by default the highest that all runs reached.
        num_samples: most prompts whose responses are shown.
        remarks: notes about runs that are not among the methods.

    Raises:
        ValueError: a file of a run cannot be read.
    """
    differing, shared = differences(methods)
    heldout = {axis: drawing for axis in Axis if (drawing := draw(methods, HELDOUT, axis))}
    training = {axis: [drawing for each in TRAINING if (drawing := draw(methods, each, axis))] for axis in Axis}
    return Report(
        title=title,
        methods=list(methods),
        table=headline(methods, level=level),
        differing=differing,
        shared=shared,
        heldout=heldout,
        training={axis: drawings for axis, drawings in training.items() if drawings},
        steps_per_point=max(points_per_mean(methods, quantity) for quantity in TRAINING),
        phases=draw_phases(methods),
        prompts=[*draw_prompts(methods), *draw_hints(methods)],
        samples=compare_samples(methods, num_prompts=num_samples) if num_samples else [],
        notes=[*notes(methods), *(Note("left out", remark) for remark in remarks)],
    )


def write_report(report: Report, output: Path) -> list[Path]:
    """Write the page, ``<name>.json`` next to it and the pictures into ``<name>_files``.

    Returns:
        The files, the page first.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    numbers = output.with_suffix(".json")
    pictures = output.with_name(f"{output.stem}_files")
    pictures.mkdir(exist_ok=True)
    written = []
    for drawing in report.drawings:
        written.append(pictures / f"{drawing.name}.png")
        written[-1].write_bytes(drawing.png)
    numbers.write_text(json.dumps(as_json(report), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    output.write_text(as_html(report), encoding="utf-8")
    return [output, numbers, *written]


def as_json(report: Report) -> dict[str, Any]:
    """Return the numbers of the tables."""
    return {
        "title": report.title,
        "spread": "low and high are the lowest and the highest seed",
        "level": report.table.level,
        "level_is_given": report.table.level_is_given,
        "methods": [_method_json(report, index) for index in range(len(report.methods))],
        "differences": [
            {"key": setting.key, "values": [_plain(value) for value in setting.values]} for setting in report.differing
        ],
        "notes": [{"where": note.where, "text": note.text} for note in report.notes],
    }


def as_html(report: Report) -> str:
    """Render the page; it needs no other file."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup, escape

    environment = Environment(
        loader=PackageLoader("ada_lightning.analysis.report"),
        autoescape=True,  # responses are text of a model: nobody knows what is in them
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "figure": figure_text,
        "range": range_text,
        "svg": lambda drawing: Markup(drawing.svg),
        "long": is_long,
        "breakable": lambda name: escape(name).replace("_", Markup("_<wbr>")),
    }
    style_sheet = environment.loader.get_source(environment, "page.css")[0] if environment.loader else ""
    return environment.get_template("page.html.j2").render(
        report=report,
        style=style,
        style_sheet=Markup(style_sheet),
        phase_seconds=phase_seconds,
        heldout_before=heldout_before,
        heldout_after=heldout_after,
        Axis=Axis,
        spent=spent,
        heldout_keys=sorted({run.heldout_key for method in report.methods for run in method.runs if run.heldout_key}),
    )


def figure_text(value: float | None, unit: str = "") -> str:
    """Spell a number with three digits that count.

    Example:
        >>> [figure_text(value, "tokens") for value in (812, 153841, 2_400_000)]
        ['812', '154 k', '2.40 M']
        >>> [figure_text(value, "seconds") for value in (5.25, 95, 737.9, 9000)]
        ['5.2 s', '95 s', '12.3 min', '2.50 h']
        >>> figure_text(0.4147), figure_text(None)
        ('0.415', '-')
    """
    if value is None:
        return "-"
    if unit == "tokens":
        scales: tuple[tuple[float, str], ...] = ((1e9, " G"), (1e6, " M"), (1e3, " k"), (1, ""))
    elif unit == "seconds":
        scales = ((5400, " h"), (100, " min"), (0, " s"))
    else:
        return f"{value:.3f}"
    limit, name = next((scale for scale in scales if value >= scale[0]), scales[-1])
    divisor = {" h": 3600.0, " min": 60.0, " s": 1.0}.get(name, limit or 1.0)
    number = value / divisor
    if name == "" and unit == "tokens":
        return f"{number:.0f}"
    digits = 0 if number >= 100 or (name == " s" and number >= 10) else 1 if number >= 10 or name == " s" else 2
    return f"{number:.{digits}f}{name}"


def range_text(figure: Spread, unit: str = "") -> str:
    """Spell lowest to highest, the unit once where it is the same.

    Example:
        >>> range_text(Spread(3.0, 300.0, 1080.0, 3, 1.0), "seconds")
        '5.00 to 18.0 min'
    """
    low, high = figure_text(figure.low, unit), figure_text(figure.high, unit)
    number, _, name = low.partition(" ")
    return f"{number} to {high}" if name and high.endswith(f" {name}") else f"{low} to {high}"


def is_long(text: str) -> bool:
    """Whether a response is folded."""
    return len(text) > 300 or text.count("\n") > 8


def _method_json(report: Report, index: int) -> dict[str, Any]:
    method = report.methods[index]
    return {
        "name": method.name,
        "num_runs": len(method.runs),
        "figures": {column.key: column.as_dict(index) for column in report.table.columns},
        "phase_seconds": phase_seconds(method),
        "runs": [
            {
                "name": run.name,
                "folder": str(run.folder),
                "seed": run.seed,
                "status": run.status,
                "steps": run.num_steps,
                "heldout_key": run.heldout_key,
                "heldout_before": heldout_before(run),
                "heldout_after": heldout_after(run),
                "generated_tokens": spent(run, Axis.TOKENS),
                "training_seconds": spent(run, Axis.SECONDS),
            }
            for run in method.runs
        ],
    }


def _plain(value: Any) -> Any:
    """Spell what JSON has no number for."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool | dict | None) else str(value)


@dataclass(frozen=True)
class Note:
    """Something that happened in a run, or that makes runs hard to compare."""

    where: str
    """Run or methods."""
    text: str


def notes(methods: Sequence[Method]) -> list[Note]:
    """Collect what the runs and their settings give cause to say."""
    found = [*_comparison_notes(methods)]
    for method in methods:
        found += _method_notes(method)
        found += [Note(run.name, text) for run in method.runs for text in _run_notes(run)]
    return found


def _comparison_notes(methods: Sequence[Method]) -> Iterator[Note]:
    everyone = "all methods"
    if keys := [key for key in differing_keys([method.settings for method in methods]) if key.startswith(MEASUREMENT)]:
        yield Note(everyone, f"held-out figures are not measured alike: {', '.join(keys)} differ")
    columns = sorted({run.heldout_key for method in methods for run in method.runs if run.heldout_key})
    if len(columns) > 1:
        yield Note(
            everyone,
            f"held-out columns differ: {', '.join(columns)}; avg@k has the same mean for every k, not the same noise",
        )


def _method_notes(method: Method) -> Iterator[Note]:
    repeated = sorted({str(seed) for seed in method.seeds if method.seeds.count(seed) > 1})
    if repeated:
        yield Note(method.name, f"several runs with seed {', '.join(repeated)}: they are not independent")
    lengths = {run.num_steps for run in method.runs}
    if len(lengths) > 1:
        yield Note(method.name, f"runs of different lengths: {', '.join(map(str, sorted(lengths)))} steps")


def _run_notes(run: Run) -> Iterator[str]:
    if not run.num_steps:
        yield "no step is finished yet"
    yield from _auto_notes(run)
    if run.status == "no summary":
        yield "no summary.json: in progress, or killed"
    elif run.status != "finished":
        error = str(run.summary.get("error", ""))
        yield f"{run.status} after {run.num_steps} steps{': ' if error else ''}{error}"
    counts = {key: run.total(key) for key in COUNTED} | {key: run.increase(key) for key in COUNTED_SO_FAR}
    for key, meaning in (COUNTED | COUNTED_SO_FAR).items():
        if count := counts[key]:
            yield f"{meaning}: {count:.0f} ({key})"
    limit = run.settings.get("callbacks.adaptive_sampling.max_logprob_gap")
    is_lagging = any("sync/canary_gap" in row for row in run.rows)  # the gap of its responses is mostly drift
    name = "sync/canary_gap" if is_lagging else "sync/logprob_gap"
    if isinstance(limit, int | float) and (above := sum(row.get(name, 0.0) > limit for row in run.rows)):
        yield f"{name} above max_logprob_gap = {limit} in {above} steps: did the weights arrive?"
    not_finite = Counter(key for row in run.rows for key, value in row.items() if not math.isfinite(value))
    for key, count in not_finite.items():
        yield f"{key} is not a number in {count} of {len(run.rows)} rows; they are left out"
    if since := run.summary.get("heldout_since"):
        yield f"held-out prompts changed when the run was continued: evaluations before update {since} are left out"
    if resumed := sorted(path.name for path in run.folder.glob("config-resumed-*.yaml")):
        yield f"continued with other settings ({', '.join(resumed)}); this page shows config.yaml"


def _auto_notes(run: Run) -> Iterator[str]:
    """What ``curriculum=auto`` decided, and what the run has gained by it."""
    rows = [(number, row) for number, row in enumerate(run.rows, start=1) if "curriculum/mode" in row]
    for (_, before), (number, after) in pairwise(rows):
        if sentence := sentence_of_change(before, after):
            yield f"update {number}: {sentence}"
    if rows:
        gain = rows[-1][1]["curriculum/gain"]
        yield f"auto: up to the last step, groups gave {gain:.2f} times the signal of uniform order for the same cost"
