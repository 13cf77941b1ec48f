"""Two models on the same prompts: differences, prompt by prompt."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import permutation_test

from ada_lightning.analysis.evaluation.figures import PromptFigures, widest
from ada_lightning.analysis.evaluation.intervals import estimate_means

Floats = NDArray[np.float64]
NUM_FLIPS = 10_000


def compare(
    first: Mapping[str, PromptFigures],
    second: Mapping[str, PromptFigures],
    *,
    weights: Mapping[str, float | None],
) -> dict[str, Any]:
    """Compare two evaluations on the prompts that both have, matched by set and prompt id.

    The difference of a prompt has less noise than the two figures where models find the same prompts hard, so its
    interval is narrower than two intervals side by side suggest.

    Args:
        first: figures by set of the model compared with.
        second: figures by set of the model in question; differences are second minus first.
        weights: of the sets in the average; None, or a set that is not there, is the number of matched prompts.

    Returns:
        As ``comparison.json``: for every set and for their weighted average the figures ``avg``, and ``pass_at_k`` and
        ``maj_at_k`` for the largest k both have, length and truncation: ``first``, ``second``, ``difference`` with its
        interval, ``p_value``. And what was not matched.

    Raises:
        ValueError: no prompt is in both.
    """
    shared = {name: second[name].table.index.isin(first[name].table.index) for name in second if name in first}
    names = [name for name, is_matched in shared.items() if is_matched.any()]
    if not names:
        raise ValueError(
            f"the evaluations have no prompt in common: one has the sets {_sizes(first)}, the other {_sizes(second)}"
        )
    columns = _columns([figures[name].table.columns for name in names for figures in (first, second)])
    pairs = [_both(first[name].table, second[name].table[shared[name]], columns) for name in names]
    sizes = {name: int(shared[name].sum()) for name in names}
    set_weights = {name: float(weights.get(name) or sizes[name]) for name in names}
    lowest, highest = widest([side[name] for name in names for side in (first, second)], columns)
    ends = np.stack([lowest - highest, highest - lowest])
    figures = partial(_figures, columns, pairs, ends)
    return {
        "sets": {
            name: {
                "weight": set_weights[name],
                "num_prompts": sizes[name],
                "figures": figures(picked=[float(other == name) for other in names]),
            }
            for name in names
        },
        "average": {"weights": set_weights, "figures": figures(picked=[set_weights[name] for name in names])},
        "unmatched": {
            "sets": sorted(set(first) ^ set(second)),
            "prompts_of_first": _num_unmatched(first, sizes),
            "prompts_of_second": _num_unmatched(second, sizes),
        },
    }


def _figures(
    columns: list[str], pairs: list[tuple[Floats, Floats]], ends: Floats, *, picked: list[float]
) -> dict[str, Any]:
    """Figures of sets weighted by ``picked``, by column."""
    changes = [after - before for before, after in pairs]
    sides = [np.dot(picked, [_known_mean(pair[side]) for pair in pairs]) / sum(picked) for side in (0, 1)]
    return {
        column: {
            "first": float(sides[0][index]),
            "second": float(sides[1][index]),
            "difference": asdict(difference),
            "p_value": p_value(_contributions([of_set[:, index] for of_set in changes], picked)),
        }
        for index, (column, difference) in enumerate(zip(columns, estimate_means(changes, picked, ends), strict=True))
        if not np.isnan(difference.mean)
    }


def _columns(names: Sequence[Collection[str]]) -> list[str]:
    """Figures to compare: means, and the largest k that all have."""
    common = set.intersection(*map(set, names))
    largest = max(int(name.removeprefix("pass_at_")) for name in common if name.startswith("pass_at_"))
    return ["avg", f"pass_at_{largest}", f"maj_at_{largest}", "response_tokens", "truncated_ratio"]


def _both(first: pd.DataFrame, second: pd.DataFrame, columns: list[str]) -> tuple[Floats, Floats]:
    """Figures of the second's prompts in its order; a figure that one of the two lacks counts for neither."""
    before, after = first.reindex(second.index)[columns].to_numpy(), second[columns].to_numpy()
    is_missing = np.isnan(before) | np.isnan(after)
    return np.where(is_missing, np.nan, before), np.where(is_missing, np.nan, after)


def p_value(contributions: Floats) -> float:
    """Could the difference be chance: two-sided permutation test over the signs of what each prompt adds to it.

    Without a true difference the two models are exchangeable on every prompt. Few prompts are counted exactly; of many,
    :data:`NUM_FLIPS` patterns are drawn and the observed one counted with them, so that the value is never 0.

    Args:
        contributions: what each prompt adds to the difference. Shape ``(prompts,)``.

    Returns:
        In (0, 1]; 1 where no prompt differs.
    """
    differing = contributions[contributions != 0]
    if len(differing) < 2:  # scipy wants two; one may as well have the other sign
        return 1.0
    found = permutation_test(
        (differing,),
        np.sum,
        permutation_type="samples",
        n_resamples=NUM_FLIPS,
        batch=1000,
        rng=np.random.default_rng(0),
    )
    return float(found.pvalue)


def _known_mean(values: Floats) -> Floats:
    """Mean over the prompts that have a figure. Shape ``(figures,)``; 0 where none has it."""
    mean: Floats = np.nan_to_num(values).sum(axis=0) / np.maximum((~np.isnan(values)).sum(axis=0), 1)
    return mean


def _contributions(changes: list[Floats], weights: list[float]) -> Floats:
    """What each prompt adds to the weighted difference; prompts without the figure add nothing."""
    parts = []
    for change, weight in zip(changes, weights, strict=True):
        known = change[~np.isnan(change)]
        parts.append(weight / sum(weights) * known / max(len(known), 1))
    return np.concatenate(parts)


def _num_unmatched(figures: Mapping[str, PromptFigures], matched: Mapping[str, int]) -> dict[str, int]:
    numbers = {name: len(of_set.table) - matched.get(name, 0) for name, of_set in figures.items()}
    return {name: number for name, number in numbers.items() if number}


def _sizes(figures: Mapping[str, PromptFigures]) -> str:
    return ", ".join(f"{name} ({len(of_set.table)} prompts)" for name, of_set in figures.items())
