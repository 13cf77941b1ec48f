"""The files an evaluation leaves in its folder: figures, curves, and a comparison with another evaluation."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import permutation_test

from ada_lightning.analysis.evaluation.checkpoint import resolve_checkpoint
from ada_lightning.analysis.evaluation.intervals import estimate_means
from ada_lightning.analysis.evaluation.results import (
    EvaluationPlan,
    PromptFigures,
    read_plan,
    read_results,
    summarise,
    widest,
)
from ada_lightning.analysis.evaluation.tables import (
    AVERAGE,
    comparison_text,
    figures_of_parts,
    powers_of_two,
    results_text,
)
from ada_lightning.analysis.picture import picture
from ada_lightning.run.files import write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
NUM_FLIPS = 10_000


def write_results(folder: Path, plan: EvaluationPlan, about: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Compute the results from the stored responses, and write ``results.json``, ``results.md``, ``pass_at_k.png``.

    Args:
        folder: of the evaluation.
        plan: what the responses are read with.
        about: ``name``, ``model``, ``sampling``, ``left_out`` (prompts by set): goes to the results as it is.

    Returns:
        The Markdown, and the results as in ``results.json``.
    """
    results = {
        **about,
        "plan": {
            "num_samples": plan.num_samples,
            "positive_threshold": plan.positive_threshold,
            "grader_failure": plan.grader_failure,
            "weights": dict(plan.weights),
        },
        **summarise(plan, plan.read(folder, about["sampling"]["max_new_tokens"])),
    }
    text = results_text(results)
    write_text(folder / "results.md", text)
    plot_results(results, folder / "pass_at_k.png")
    write_text(folder / "results.json", json.dumps(results, indent=1) + "\n")  # last: it says that the rest is there
    return text, results


def write_comparison(first: Path, second: Path) -> str:
    """Compare two evaluations, and write ``comparison-with-<first>.md`` and ``.json`` into the second's folder.

    Args:
        first: folder of the evaluation compared with.
        second: folder of the one in question.

    Returns:
        The Markdown.

    Raises:
        ValueError: one is not finished, or they have no prompt in common.
    """
    results = [read_results(folder) for folder in (first, second)]
    plans = [read_plan(of_one) for of_one in results]
    figures = [
        plan.read(folder, of_one["sampling"]["max_new_tokens"])
        for plan, folder, of_one in zip(plans, (first, second), results, strict=True)
    ]
    comparison = {
        "first": first.resolve().name,
        "second": second.resolve().name,
        "unlike": _unlike(results[0], results[1]),
        **compare(figures[0], figures[1], weights=plans[1].weights),
    }
    text = comparison_text(comparison)
    stem = f"comparison-with-{comparison['first']}"
    write_text(second / f"{stem}.md", text)
    write_text(second / f"{stem}.json", json.dumps(comparison, indent=1) + "\n")
    return text


def find_evaluation(name: str, beside: Path) -> Path:
    """Find the folder of a finished evaluation.

    Args:
        name: the folder; or a checkpoint, whose evaluation on the same sets is looked for next to this one.
        beside: folder of the present evaluation, whose name ends in ``-<sets>``.

    Raises:
        ValueError: there is none.
    """
    if (Path(name) / "results.json").exists():
        read_results(Path(name))
        return Path(name)
    if (Path(name) / "sets").is_dir():
        raise ValueError(f"compare={name}: that evaluation is not finished; run its command again to continue it")
    try:
        label = resolve_checkpoint(name).label
    except ValueError as error:
        raise ValueError(f"compare={name} is no evaluation's folder and no checkpoint: {error}") from error
    words = beside.name.split("-")
    ends = ["-".join(words[place:]) for place in range(min(1, len(words) - 1), len(words))]  # sets may have a dash, too
    candidates = [beside.parent / f"{label}-{end}" for end in ends]
    found = next((folder for folder in candidates if (folder / "results.json").exists()), None)
    if found is None:
        finished = ", ".join(sorted(str(file.parent) for file in beside.parent.glob("*/results.json")))
        raise ValueError(
            f"compare={name} has no finished evaluation at {candidates[-1]}; finished ones: {finished or 'none'}"
        )
    return found


def flat_figures(results: Mapping[str, Any]) -> dict[str, float]:
    """Metrics for a tracker: ``<set>/<figure>`` and ``average/<figure>``, each with ``_low`` and ``_high``.

    Of the figures over k those at powers of two, and at the largest. Of too few prompts there are no bounds.
    """
    shown = {str(k) for k in powers_of_two(results["plan"]["num_samples"])}
    parts = {name: of_set["figures"] for name, of_set in results["sets"].items()}
    parts["average"] = results["average"]["figures"]
    metrics = {}
    for part, figures in parts.items():
        for name, estimate in figures.items():
            if "_at_" in name and name.rpartition("_")[2] not in shown:
                continue
            metrics[f"{part}/{name}"] = estimate["mean"]
            metrics |= {f"{part}/{name}_{end}": estimate[end] for end in ("low", "high") if estimate[end] is not None}
    return metrics


def _unlike(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Settings of the measurement that differ, [first, second]: what they change is no difference of the models.

    The number of responses is no such setting: fewer make a figure noisier and not another one.
    """
    sides = [
        {f"sampling.{key}": value for key, value in of_one["sampling"].items() if not key.startswith("_")}
        | {key: of_one["plan"][key] for key in ("positive_threshold", "grader_failure")}
        for of_one in (first, second)
    ]
    keys = dict.fromkeys([*sides[0], *sides[1]])
    pairs = {key: [side.get(key) for side in sides] for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


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


def plot_results(results: Mapping[str, Any], target: Path) -> None:
    """Draw pass@k and the shares of equal groups over k, each with its interval; results as in ``results.json``."""
    panels = (
        ("pass_at", "pass@k", "k"),
        ("all_correct_at", "groups of n that are all correct", "n"),
        ("all_wrong_at", "groups of n that are all wrong", "n"),
    )
    with picture(target, title=results["name"], size=(15, 4.5)) as drawing:
        for axes, (figure, title, letter) in zip(drawing.subplots(1, 3), panels, strict=True):
            for label, figures in figures_of_parts(results):
                _draw(axes, figures, figure, label)
            axes.set_title(title, fontsize=10)
            axes.set_xlabel(letter)
            axes.set_xscale("log", base=2)
            axes.set_ylim(0, 1)
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)


def _draw(axes: Axes, figures: Mapping[str, Any], figure: str, label: str) -> None:
    by_k = {int(name.removeprefix(f"{figure}_")): value for name, value in figures.items() if name.startswith(figure)}
    sizes = sorted(by_k)
    style = "--" if label == AVERAGE else "-"
    axes.plot(sizes, [by_k[k]["mean"] for k in sizes], style, label=label, marker="o", markersize=2.5)
    low, high = (np.array([by_k[k][end] for k in sizes], float) for end in ("low", "high"))  # null is not a number
    axes.fill_between(sizes, low, high, alpha=0.15)
