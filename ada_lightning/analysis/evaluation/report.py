"""The files an evaluation leaves in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ada_lightning.analysis.evaluation.checkpoint import resolve_checkpoint
from ada_lightning.analysis.evaluation.comparison import compare
from ada_lightning.analysis.evaluation.curves import plot_results
from ada_lightning.analysis.evaluation.results import EvaluationPlan, read_plan, read_results, summarise
from ada_lightning.analysis.evaluation.tables import comparison_text, powers_of_two, results_text
from ada_lightning.run.files import write_text


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
        name: the folder; or a checkpoint, whose evaluation on the same sets is looked for beside this one.
        beside: folder of the present evaluation, whose name ends in ``-<sets>``.

    Raises:
        ValueError: there is none.
    """
    if (Path(name) / "results.json").exists():
        read_results(Path(name))
        return Path(name)
    if (Path(name) / "sets").is_dir():
        raise ValueError(f"compare={name}: that evaluation is not finished; run it again, and it continues")
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
