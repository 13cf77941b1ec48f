"""The results of an evaluation: every figure of every set, their weighted average, with intervals."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ada_lightning.analysis.evaluation.intervals import Estimate, estimate_means
from ada_lightning.analysis.metrics.heldout import MAX_RESPONSES, chance_all_in_class, majority_at_k, pass_at_k
from ada_lightning.analysis.offline.response_store import ResponseStore

COLUMNS = ("prompt_id", "position", "sample_index", "reward", "failure", "answer", "is_truncated", "num_tokens")
"""Of the stored responses, those that figures are made of."""
MEANS = ("avg", "response_tokens", "truncated_ratio")
BY_K = ("pass_at", "maj_at", "all_correct_at", "all_wrong_at")


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


def figure_names(num_samples: int) -> list[str]:
    """Names of the figures, in the order of their columns.

    Example:
        >>> figure_names(1)
        ['avg', 'response_tokens', 'truncated_ratio', 'pass_at_1', 'maj_at_1', 'all_correct_at_1', 'all_wrong_at_1']
    """
    return [*MEANS, *(f"{figure}_{k}" for figure in BY_K for k in range(1, num_samples + 1))]


@dataclass(frozen=True, slots=True)
class PromptFigures:
    """One set: a row of figures for each prompt."""

    table: pd.DataFrame
    """By (prompt id, how many earlier rows have that id), which names the row in every evaluation of the same prompts;
    columns as :func:`figure_names`. Not a number where a prompt has no such figure: too few graded responses for that
    k, a reward that tells no answers, or for maj@k more than
    :data:`~ada_lightning.analysis.metrics.heldout.MAX_RESPONSES` responses."""
    ends: pd.DataFrame
    """Lowest and highest value that a figure can have: two rows, columns as of the table. Rewards go from 0 to 1, or
    as far as those that were seen."""
    num_responses: int
    num_failed: int
    """Responses whose grader failed."""


def prompt_figures(
    responses: pa.Table, *, num_samples: int, max_tokens: int, positive_threshold: float, failures_count_as_zero: bool
) -> PromptFigures:
    """Compute avg, pass@k, maj@k, shares of equal groups, length and truncation of every prompt.

    Args:
        responses: stored responses with at least :data:`COLUMNS`, by position and sample index.
        num_samples: largest k.
        max_tokens: of a response, where none that was drawn is longer.
        positive_threshold: a reward above it is a positive.
        failures_count_as_zero: a response whose grader failed through no doing of its own counts as reward 0 without
            an answer; False leaves it out, and figures of its prompt then end at the number of responses that are left.
    """
    has_answers = responses["answer"].null_count < responses.num_rows
    ids: list[str] = []
    rows: list[NDArray[np.float64]] = []
    for _, of_prompt in groupby(responses.select(COLUMNS).to_pylist(), key=lambda draw: draw["position"]):
        draws = list(of_prompt)
        ids.append(draws[0]["prompt_id"])
        if failures_count_as_zero:
            draws = [draw if draw["reward"] is not None else draw | {"reward": 0.0, "answer": None} for draw in draws]
        rows.append(_row(draws, num_samples, positive_threshold, has_answers))
    earlier = pd.Series(ids).groupby(ids).cumcount()
    table = pd.DataFrame(rows, columns=figure_names(num_samples), index=pd.MultiIndex.from_arrays([ids, earlier]))
    ends = pd.DataFrame({name: [0.0, 1.0] for name in table})
    rewards = [reward for reward in responses["reward"].to_pylist() if reward is not None]
    ends["avg"] = [min([0.0, *rewards]), max([1.0, *rewards])]
    ends["response_tokens"] = [0.0, float(max([max_tokens, *responses["num_tokens"].to_pylist()]))]
    num_failed = sum(bool(failure) for failure in responses["failure"].to_pylist())
    return PromptFigures(table, ends, responses.num_rows, num_failed)


def widest(figures: Iterable[PromptFigures], columns: Sequence[str]) -> NDArray[np.float64]:
    """Return the ends that hold for several sets. Shape ``(2, columns)``."""
    ends = pd.concat([of_set.ends[list(columns)] for of_set in figures])
    return np.stack([ends.min().to_numpy(), ends.max().to_numpy()])


def _row(
    draws: Sequence[Mapping[str, Any]], num_samples: int, positive_threshold: float, has_answers: bool
) -> NDArray[np.float64]:
    graded = [draw for draw in draws if draw["reward"] is not None]
    by_k = np.full((len(BY_K), num_samples), np.nan)
    average = float("nan")
    if graded:
        average = float(np.mean([draw["reward"] for draw in graded]))
        is_positive = [draw["reward"] > positive_threshold for draw in graded]
        size, positives = len(graded), sum(is_positive)
        by_k[0, :size] = pass_at_k(positives, size)
        if has_answers and size <= MAX_RESPONSES:
            by_k[1, :size] = majority_at_k([draw["answer"] for draw in graded], is_positive)
        by_k[2, :size] = chance_all_in_class(positives, size)
        by_k[3, :size] = chance_all_in_class(size - positives, size)
    tokens = np.mean([draw["num_tokens"] for draw in draws])
    truncated = np.mean([draw["is_truncated"] for draw in draws])
    return np.concatenate([[average, tokens, truncated], by_k.ravel()])
