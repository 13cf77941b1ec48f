"""Figures of each prompt of a set: what intervals and comparisons are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ada_lightning.analysis.metrics.majority import MAX_RESPONSES, majority_at_k
from ada_lightning.analysis.metrics.subsets import chance_all_in_class, pass_at_k

COLUMNS = ("prompt_id", "position", "sample_index", "reward", "failure", "answer", "is_truncated", "num_tokens")
"""Of the stored responses, those that figures are made of."""
MEANS = ("avg", "response_tokens", "truncated_ratio")
BY_K = ("pass_at", "maj_at", "all_correct_at", "all_wrong_at")


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
    :data:`~ada_lightning.analysis.metrics.majority.MAX_RESPONSES` responses."""
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
