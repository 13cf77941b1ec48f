"""The exact log objective beside the official rule: ``python -m research.studies.exact_objective``.

Trains ``ada_seq_balance`` and ``ada_seq_balance_official`` with three seeds each, 30 steps of 16 prompts, about an hour
on two cores. A killed study goes on where it was, and runs with a committed result are not repeated. Writes
``docs/studies/exact_objective.png`` and prints the table: held-out avg@4 at equal generated tokens, mean and spread.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research import plotting
from research.benchmarks.report import DOCS
from research.studies.runs import StudyRun

METHODS = ("ada_seq_balance", "ada_seq_balance_official")
OUTPUT = DOCS / "studies"

Curves = Mapping[str, Sequence[Sequence[tuple[float, float]]]]
"""(generated tokens, held-out avg@4) at each evaluation of each run, by the name of its group."""
_COLORS = ("#1f6f8b", "#c8553d", "#6b8f3a", "#7a5195")


def curves_of(groups: Mapping[str, Sequence[StudyRun]]) -> Curves:
    """Read the runs that are done."""
    curves = {name: [run.result()["held_out"] for run in runs if run.is_done()] for name, runs in groups.items()}
    if empty := [name for name, group in curves.items() if not group]:
        raise ValueError(f"no run of {', '.join(empty)} is done, so there is nothing to compare; train some first")
    return curves


def at_equal_tokens(curves: Curves, shares: Sequence[float] = (0.25, 0.5, 0.75, 1.0)) -> list[dict[str, Any]]:
    """Return one row per share of the tokens that every run has generated, with each group's values.

    Example:
        >>> at_equal_tokens({"a": [[(0, 0.0), (100, 1.0)]], "b": [[(0, 0.0), (200, 1.0)]]}, shares=[0.5])
        [{'tokens': 50, 'a': [0.5], 'b': [0.25]}]
    """
    last_common = min(curve[-1][0] for group in curves.values() for curve in group)
    grid = [round(last_common * share) for share in shares]
    return [
        {"tokens": tokens}
        | {name: [float(_at(curve, np.array(tokens))) for curve in group] for name, group in curves.items()}
        for tokens in grid
    ]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return Markdown: mean over runs, in brackets the lowest and the highest."""
    names = [name for name in rows[0] if name != "tokens"]
    lines = ["| generated tokens | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for row in rows:
        cells = [f"{np.mean(row[name]):.3f} ({min(row[name]):.3f} to {max(row[name]):.3f})" for name in names]
        lines.append(f"| {row['tokens']:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(curves: Curves, path: Path) -> None:
    """Draw every run thinly and each group's mean, as far as all of its runs go."""
    figure, axes = plotting.panels(figsize=(7, 4.2))
    for (name, group), color in zip(curves.items(), cycle(_COLORS), strict=False):
        for curve in group:
            tokens, average = zip(*curve, strict=True)
            axes.plot(np.array(tokens) / 1000, average, color=color, alpha=0.3, linewidth=1)
        grid = np.linspace(0, min(curve[-1][0] for curve in group), 60)
        mean = np.mean([_at(curve, grid) for curve in group], axis=0)
        axes.plot(grid / 1000, mean, color=color, linewidth=2.5, label=f"{name} (mean of {len(group)} seeds)")
    axes.set_xlabel("generated tokens, thousands")
    axes.set_ylabel("held-out avg@4")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="lower right")
    plotting.save(figure, path, 150)


def _at(curve: Sequence[tuple[float, float]], tokens: NDArray[Any]) -> NDArray[Any]:
    """Value of a curve at given numbers of tokens, by straight lines between its points."""
    xs, ys = np.array(curve).T
    return np.asarray(np.interp(tokens, xs, ys))


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
    groups = {method: [run for run in runs if run.method == method] for method in METHODS}
    curves = curves_of(groups)
    plot(curves, OUTPUT / "exact_objective.png")
    print(table(at_equal_tokens(curves)))


if __name__ == "__main__":
    main()
