"""The exact log objective beside the official rule, on the default model: ``python -m studies.exact_objective``.

Trains ``ada_seq_balance`` and ``ada_seq_balance_official`` with three seeds each, 30 steps of 16 prompts, about an hour
on two cores. A killed study goes on where it was, and runs with a committed result are not repeated. Writes
``docs/studies/exact_objective.png`` and prints the table: held-out avg@4 at equal generated tokens, mean and spread.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.runs import ROOT, StudyRun

METHODS = ("ada_seq_balance", "ada_seq_balance_official")
OUTPUT = ROOT / "docs" / "studies"


def main() -> None:
    """Train what is missing, then report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="runs per method")
    parser.add_argument("--steps", type=int, default=30, help="rollout steps per run")
    parser.add_argument("--prompts", type=int, default=16, help="prompts per step")
    parser.add_argument("--report-only", action="store_true", help="use the runs that are done, train nothing")
    arguments = parser.parse_args()
    overrides = (
        f"num_steps={arguments.steps}",
        f"data.prompts_per_step={arguments.prompts}",
        "callbacks.evaluation.every_n_steps=5",
        "callbacks.evaluation.num_prompts=128",
    )
    runs = [
        StudyRun("exact_objective", method, seed, overrides) for seed in range(arguments.seeds) for method in METHODS
    ]
    if not arguments.report_only:
        for run in runs:
            run.train()
            run.result()
    report = _report([run for run in runs if run.is_done()])
    OUTPUT.mkdir(parents=True, exist_ok=True)
    _plot(report)
    print(_table(report))


def _report(runs: Sequence[StudyRun]) -> dict[str, Any]:
    results = [run.result() for run in runs]
    curves = {
        method: [
            {"seed": result["seed"], "points": result["held_out"]} for result in results if result["method"] == method
        ]
        for method in METHODS
    }
    last_common = min(curve["points"][-1][0] for group in curves.values() for curve in group)
    grid = [round(last_common * share) for share in (0.25, 0.5, 0.75, 1.0)]
    table = []
    for tokens in grid:
        row: dict[str, Any] = {"tokens": tokens}
        for method, group in curves.items():
            row[method] = [float(_at(curve["points"], np.array(tokens))) for curve in group]
        table.append(row)
    return {"curves": curves, "at_equal_tokens": table}


def _at(points: Sequence[tuple[float, float]], tokens: NDArray[Any]) -> NDArray[Any]:
    """Value of a curve at given numbers of tokens, by straight lines between its points."""
    xs, ys = np.array(points).T
    return np.asarray(np.interp(tokens, xs, ys))


def _table(report: dict[str, Any]) -> str:
    lines = [
        "| generated tokens | " + " | ".join(METHODS) + " |",
        "|---|" + "---|" * len(METHODS),
    ]
    for row in report["at_equal_tokens"]:
        cells = [f"{np.mean(row[m]):.3f} ({min(row[m]):.3f} to {max(row[m]):.3f})" for m in METHODS]
        lines.append(f"| {row['tokens']:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _plot(report: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), constrained_layout=True)
    for method, color in zip(METHODS, ("#1f6f8b", "#c8553d"), strict=True):
        group = report["curves"][method]
        for curve in group:
            tokens, average = zip(*curve["points"], strict=True)
            axes.plot(np.array(tokens) / 1000, average, color=color, alpha=0.3, linewidth=1)
        end = min(curve["points"][-1][0] for curve in group)
        grid = np.linspace(0, end, 60)
        mean = np.mean([_at(curve["points"], grid) for curve in group], axis=0)
        axes.plot(grid / 1000, mean, color=color, linewidth=2.5, label=f"{method} (mean of {len(group)} seeds)")
    axes.set_xlabel("generated tokens, thousands")
    axes.set_ylabel("held-out avg@4")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(OUTPUT / "exact_objective.png", dpi=150)


if __name__ == "__main__":
    main()
