"""What a reader must know before trusting the figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ada_lightning.analysis.report.method import Method, differing_keys
from ada_lightning.analysis.report.run import Run

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
    if resumed := sorted(path.name for path in run.folder.glob("config-resumed-*.yaml")):
        yield f"continued with other settings ({', '.join(resumed)}); this page shows config.yaml"
