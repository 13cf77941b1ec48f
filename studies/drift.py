"""How well remembered pass rates foretell what is drawn next, with and without drift: ``python -m studies.drift``.

Goes through the prompt logs of runs again, step by step: what :class:`BetaHistory` expects of a prompt that it has seen
before, then what was drawn of it. Nothing is trained; the runs are those of the other studies, as far as they are on
this machine (``python -m studies.smollm2.tune``, ``python -m studies.field.compare``). Results stay in
``docs/studies/drift/runs.json``; take one out to measure it anew.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import correlation, fmean

from ada_lightning.estimators import BetaHistory
from ada_lightning.estimators.tally import summed
from ada_lightning.types import Prompt
from benchmarks.markdown import markdown
from studies.runs import ROOT

FILE = ROOT / "docs" / "studies" / "drift" / "runs.json"
LOGS = {"SmolLM2": "smollm2/tuning/chain_sum/*/prompts.csv", "field": "field/runs/ada-lr*/prompts.csv"}
"""By the name of the model: prompt logs, below the folder of runs."""
NUM_VISITS = (0, 64, 256)
_FIRST_STEPS = 10
"""Steps that are not counted: a memory has to begin."""

Visit = tuple[str, int, int]
"""Prompt id, positives, responses."""


def visits(log: Path) -> Iterator[list[Visit]]:
    """Return the visits of each step of a prompt log."""
    with log.open(newline="") as file:
        for _, rows in groupby(csv.DictReader(file), key=lambda row: row["step"]):
            seen = [(row["prompt_id"], int(row["num_positive"]), int(row["num_sampled"])) for row in rows]
            yield [visit for visit in seen if visit[2]]


def foretold(steps: Sequence[Sequence[Visit]], *, drift_visits: int, memory: float = 0.7) -> dict[str, float]:
    """Return how well a memory foretells the draws of prompts that it knows.

    Args:
        steps: the visits of each step, in order.
        drift_visits: see :class:`BetaHistory`.
        memory: see there.

    Returns:
        ``log_loss`` per response in nats; ``correlation`` of the p (1 - p) expected of a visit with the unbiased
        estimate of it from what was drawn, over visits with two responses or more; ``mean_error``, the pass rate drawn
        minus the one expected; ``visits``, how many.
    """
    history = BetaHistory(memory=memory, drift_visits=drift_visits)
    losses, errors, expected_spread, drawn_spread = [], [], [], []
    for number, step in enumerate(steps):
        remembered = history.recall([Prompt(prompt_id, ()) for prompt_id, _, _ in step])
        for (_, positives, responses), known in zip(step, remembered, strict=True):
            if not known.is_seen or number < _FIRST_STEPS:
                continue
            rate = known.belief.mean
            wrong = responses - positives
            losses.append(-(positives * math.log(rate) + wrong * math.log(1 - rate)) / responses)
            errors.append(positives / responses - rate)
            if responses > 1:
                expected_spread.append(rate * (1 - rate))
                drawn_spread.append(positives * wrong / (responses * (responses - 1)))
        history.learn(summed(step))
    return {
        "log_loss": fmean(losses),
        "correlation": correlation(expected_spread, drawn_spread) if len(set(drawn_spread)) > 1 else math.nan,
        "mean_error": fmean(errors),
        "visits": len(losses),
    }


def measured(log: Path) -> dict[str, dict[str, float]]:
    """Return :func:`foretold` of a prompt log by the number of visits that drift is fitted to."""
    steps = list(visits(log))
    return {str(number): foretold(steps, drift_visits=number) for number in NUM_VISITS}


def table() -> str:
    """Return the committed results, means over the runs of a method with the same settings."""
    groups: dict[str, list[dict[str, dict[str, float]]]] = {}
    for name, result in json.loads(FILE.read_text()).items():
        groups.setdefault(name.rsplit("-", 1)[0], []).append(result)
    head = ["runs", "number", *(f"log loss, {n}" if n else "log loss, as it is" for n in NUM_VISITS)]
    head += [f"correlation, {n}" if n else "correlation, as it is" for n in NUM_VISITS]
    rows = [
        [f"`{name}`", str(len(runs)), *_means(runs, "log_loss"), *_means(runs, "correlation")]
        for name, runs in sorted(groups.items())
    ]
    return markdown(head, rows)


def _means(runs: Sequence[dict[str, dict[str, float]]], figure: str) -> list[str]:
    return [f"{fmean(run[str(number)][figure] for run in runs):.3f}" for number in NUM_VISITS]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the runs that are here and were not measured yet."""
    argparse.ArgumentParser(description=__doc__).parse_args(arguments)
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    for place, pattern in LOGS.items():
        for log in sorted((ROOT / "runs").glob(pattern)):
            name = f"{place} {log.parent.name.removeprefix('chain_sum-')}"
            if name not in results and (log.parent / "summary.json").exists():
                results[name] = measured(log)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")
    print(table())


if __name__ == "__main__":
    main()
