"""Sampled responses of several methods to the same prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ada_lightning.report.method import Method
from ada_lightning.report.run import Run

MAX_RESPONSES = 4


@dataclass(frozen=True)
class Answers:
    """Responses of one run to one prompt at one step."""

    run: str
    seed: Any
    step: int
    rewards: list[float]
    """Of all responses, in the order in which they were drawn."""
    shown: list[Mapping[str, Any]]
    """Rows of the rollout table: those that train first, at most ``MAX_RESPONSES``."""


@dataclass(frozen=True)
class Comparison:
    """A prompt and what each method answered."""

    prompt: str
    answers: list[Answers | None]
    """One per method; None where its tables lack the prompt."""


@dataclass
class _Sighting:
    """Where tables of a method show a prompt."""

    prompt: str
    places: list[tuple[int, Run, list[dict[str, Any]]]] = field(default_factory=list)


def compare_samples(methods: Sequence[Method], *, num_prompts: int) -> list[Comparison]:
    """Find prompts that the rollout tables of most methods show, each at steps as near to each other as there are.

    Args:
        methods: what is compared.
        num_prompts: most comparisons; they are spread over the training as far as the tables allow.

    Returns:
        The comparisons by step. Prompts of a single method only where no two methods share one.
    """
    sightings = [_sightings(method) for method in methods]
    candidates = []
    for prompt_id in dict.fromkeys(key for seen in sightings for key in seen):
        candidates += _candidates(prompt_id, sightings)
    if not candidates:
        return []
    most = max(_num_methods(comparison) for comparison in candidates)
    best = [comparison for comparison in candidates if _num_methods(comparison) == most]
    best.sort(key=lambda comparison: (_distance(comparison), _step(comparison)))
    nearest = [comparison for comparison in best if _distance(comparison) == _distance(best[0])]
    pool = nearest if len(nearest) >= num_prompts else best[:num_prompts]
    pool.sort(key=_step)
    if len(pool) > num_prompts:
        last = len(pool) - 1
        picked = sorted({round(index * last / max(num_prompts - 1, 1)) for index in range(num_prompts)})
        pool = [pool[index] for index in picked]
    return pool


def read_table(path: Path) -> list[dict[str, Any]]:
    """Read a rollout table.

    Raises:
        ValueError: a line is no JSON object.
    """
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number} is no JSON: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number} is no JSON object")
        rows.append(row)
    return rows


def _sightings(method: Method) -> dict[str, _Sighting]:
    seen: dict[str, _Sighting] = {}
    for run in method.runs:
        for path in sorted((run.folder / "rollouts").glob("step_*.jsonl")):
            step = int(re.findall(r"\d+", path.name)[-1])
            groups: dict[str, list[dict[str, Any]]] = {}
            for row in read_table(path):
                groups.setdefault(str(row.get("prompt_id", row.get("prompt", ""))), []).append(row)
            for prompt_id, rows in groups.items():
                sighting = seen.setdefault(prompt_id, _Sighting(str(rows[0].get("prompt", ""))))
                sighting.places.append((step, run, rows))
    return seen


def _candidates(prompt_id: str, sightings: Sequence[Mapping[str, _Sighting]]) -> list[Comparison]:
    """Compare at each step at which the first method that knows the prompt shows it."""
    there = [seen.get(prompt_id) for seen in sightings]
    leader = next(sighting for sighting in there if sighting)
    comparisons = []
    for step, leading_run, _ in leader.places:
        answers: list[Answers | None] = []
        for sighting in there:
            if sighting is None:
                answers.append(None)
                continue
            nearest = min(
                sighting.places, key=lambda place: (abs(place[0] - step), place[1].seed != leading_run.seed, place[0])
            )
            answers.append(_answers(*nearest))
        comparisons.append(Comparison(leader.prompt, answers))
    return comparisons


def _answers(step: int, run: Run, rows: list[dict[str, Any]]) -> Answers:
    shown = sorted(rows, key=lambda row: not row.get("kept", False))[:MAX_RESPONSES]
    return Answers(run.name, run.seed, step, [float(row.get("reward", 0.0)) for row in rows], list(shown))


def _num_methods(comparison: Comparison) -> int:
    return sum(answers is not None for answers in comparison.answers)


def _steps(comparison: Comparison) -> list[int]:
    return [answers.step for answers in comparison.answers if answers]


def _distance(comparison: Comparison) -> int:
    return max(_steps(comparison)) - min(_steps(comparison))


def _step(comparison: Comparison) -> int:
    return min(_steps(comparison))
