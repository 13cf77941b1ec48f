"""The results of an evaluation: every figure of every set, their weighted average, with intervals."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ada_lightning.analysis.evaluation.figures import COLUMNS, PromptFigures, prompt_figures, widest
from ada_lightning.analysis.evaluation.intervals import Estimate, estimate_means
from ada_lightning.analysis.offline.response_store import ResponseStore


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What the stored responses of an evaluation are read with. Stands in its ``results.json``."""

    num_samples: int
    """Responses per prompt, the largest k."""
    positive_threshold: float
    """A reward above it is a positive."""
    grader_failure: str
    """``as_zero`` or ``exclude``."""
    weights: Mapping[str, float | None]
    """By set; None is its number of prompts."""

    def read(self, folder: Path, max_tokens: int) -> dict[str, PromptFigures]:
        """Compute the figures of every set from the responses in an evaluation's folder.

        Args:
            folder: of the evaluation.
            max_tokens: that a response could have.

        Raises:
            ValueError: responses are missing or cannot be read.
        """
        figures = {}
        for name in self.weights:
            table = ResponseStore(set_folder(folder, name)).table(COLUMNS)
            if not table.num_rows:
                raise ValueError(f"{set_folder(folder, name)} has no responses; run the evaluation to its end first")
            figures[name] = prompt_figures(
                table,
                num_samples=self.num_samples,
                max_tokens=max_tokens,
                positive_threshold=self.positive_threshold,
                failures_count_as_zero=self.grader_failure == "as_zero",
            )
        return figures


def set_folder(folder: Path, name: str) -> Path:
    """Where an evaluation keeps the responses of a set."""
    return folder / "sets" / name


def summarise(plan: EvaluationPlan, figures: Mapping[str, PromptFigures]) -> dict[str, Any]:
    """Estimate every figure of every set and their weighted average.

    Returns:
        ``{"sets": {name: {...}}, "average": {...}}`` as in ``results.json``: figures by name, each with mean, low, high
        (null of too few prompts) and the number of prompts that have it. A figure that some set lacks has no average.
    """
    names = list(figures)
    weights = {
        name: float(len(figures[name].table) if given is None else given) for name, given in plan.weights.items()
    }
    of_prompts = [*figures[names[0]].table]

    def estimates(picked: Sequence[str]) -> list[Estimate]:
        of_sets = [figures[name] for name in picked]
        values = [of_set.table.to_numpy() for of_set in of_sets]
        return estimate_means(values, [weights[name] for name in picked], widest(of_sets, of_prompts))

    columns = [f"avg_at_{plan.num_samples}" if column == "avg" else column for column in of_prompts]
    sets = {
        name: {
            "weight": weights[name],
            "num_prompts": len(figures[name].table),
            "num_responses": figures[name].num_responses,
            "num_failed": figures[name].num_failed,
            "figures": as_json(columns, estimates([name])),
        }
        for name in names
    }
    return {"sets": sets, "average": {"weights": weights, "figures": as_json(columns, estimates(names))}}


def as_json(names: Sequence[str], estimates: Sequence[Estimate]) -> dict[str, dict[str, Any]]:
    """Estimates by name, those that do not exist left out: JSON has no NaN."""
    return {
        name: asdict(estimate) for name, estimate in zip(names, estimates, strict=True) if not math.isnan(estimate.mean)
    }


def read_results(folder: Path) -> dict[str, Any]:
    """Read an evaluation's ``results.json``.

    Raises:
        ValueError: it is not there or not readable.
    """
    file = folder / "results.json"
    try:
        results: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        read_plan(results)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{folder} holds no finished evaluation: {file} cannot be read ({type(error).__name__}: {error})"
        ) from error
    return results


def read_plan(results: Mapping[str, Any]) -> EvaluationPlan:
    """Take the plan out of ``results.json``."""
    return EvaluationPlan(**results["plan"])
