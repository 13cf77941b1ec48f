"""Does adaptive sampling pay? All methods of the field, tuned alike: ``python -m studies.field.compare``.

Each method runs with the settings that ``python -m studies.field.tune`` found for it, on several seeds, to the same
number of generated tokens, longer than it was tuned for. Compared are learning curves against updates, generated
tokens, trained tokens and seconds, and what each spends to reach the final level of the best GRPO. A study that was
killed goes on where it was. Writes ``docs/studies/cost_benefit/runs.jsonl`` and the plot beside it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from studies.field.methods import METHODS
from studies.field.reach import Curve, advantage_over, final_level, mean_curve
from studies.field.results import Results
from studies.field.setting import field_run, prepare
from studies.field.tune import RESULTS as TUNING
from studies.field.tune import tuned
from studies.runs import ROOT, StudyRun, train_all

FOLDER = ROOT / "docs" / "studies" / "cost_benefit"
RESULTS = FOLDER / "runs.jsonl"
MAX_TOKENS = 600_000
POINTS = 15
NUM_SEEDS = 5
GRPO = ("grpo_n4", "grpo_n8", "grpo_n16")
AXES = {
    "generated_tokens": "generated tokens, thousands",
    "seconds": "seconds of rollout and update",
    "trained_tokens": "trained tokens, thousands",
    "updates": "updates",
}


def comparison_runs(methods: Sequence[str], *, num_seeds: int = NUM_SEEDS) -> dict[str, list[StudyRun]]:
    """Return the runs of each method with its tuned settings.

    Raises:
        ValueError: a method is not tuned yet.
    """
    tuning = Results(TUNING)
    found = {method: tuned(method, tuning) for method in methods}
    return {
        method: [
            field_run(
                "field/runs", method, seed=seed, lr=best.lr, prompts=best.prompts, max_tokens=MAX_TOKENS, points=POINTS
            )
            for seed in range(num_seeds)
        ]
        for method, best in found.items()
    }


def curves(methods: Sequence[str] = tuple(METHODS)) -> dict[str, list[Curve]]:
    """Return the learning curves that are there, by method."""
    results = Results(RESULTS)
    found = {
        method: [results.row(run)["curve"] for run in runs if results.has(run)]
        for method, runs in comparison_runs(methods).items()
    }
    return {method: rows for method, rows in found.items() if rows}


def best_grpo(found: Mapping[str, Sequence[Curve]]) -> str:
    """Return the group size of GRPO that ends highest."""
    return max((name for name in GRPO if name in found), key=lambda name: final_level(found[name]))


def comparison(found: Mapping[str, Sequence[Curve]]) -> list[dict[str, object]]:
    """Return a row per method: final level with its spread, and how much less it spends than the best GRPO."""
    base = found[best_grpo(found)]
    rows: list[dict[str, object]] = []
    for method, runs in found.items():
        levels = [final_level([run]) for run in runs]
        row: dict[str, object] = {
            "method": method,
            "seeds": len(runs),
            "level": float(np.mean(levels)),
            "lowest": min(levels),
            "highest": max(levels),
        }
        for cost in AXES:
            estimate = advantage_over(base, runs, cost)
            row[cost] = [estimate.value, estimate.low, estimate.high]
        rows.append(row)
    return sorted(rows, key=lambda row: -float(str(row["level"])))


def plot(found: Mapping[str, Sequence[Curve]], path: Path, *, axes: Sequence[str], shown: Sequence[str]) -> None:
    """Draw mean learning curves with a band of one standard error; methods that are not shown stay grey."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    colors = dict(zip(shown, ("#1f6f8b", "#c8553d", "#6b8f3a", "#7a5195", "#d99a2b"), strict=False))
    figure, panels = plt.subplots(1, len(axes), figsize=(5.2 * len(axes), 4.2), constrained_layout=True, sharey=True)
    for panel, cost in zip(np.atleast_1d(panels), axes, strict=True):
        scale = 1000 if cost.endswith("tokens") else 1
        for method, runs in found.items():
            grid_G, rates_RG = mean_curve(runs, cost)
            mean_G = rates_RG.mean(0)
            if method not in colors:
                panel.plot(grid_G / scale, mean_G, color="#c4c4c4", linewidth=1, zorder=1)
                continue
            error_G = rates_RG.std(0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else 0 * mean_G
            panel.plot(grid_G / scale, mean_G, color=colors[method], linewidth=2.2, label=method, zorder=3)
            panel.fill_between(
                grid_G / scale, mean_G - error_G, mean_G + error_G, color=colors[method], alpha=0.18, linewidth=0
            )
        panel.set_xlabel(AXES[cost])
        panel.grid(alpha=0.25)
    np.atleast_1d(panels)[0].set_ylabel("held-out avg@4")
    np.atleast_1d(panels)[0].legend(frameon=False, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, a seed of every method before the next, then report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="methods to compare")
    parser.add_argument("--seeds", type=int, default=NUM_SEEDS, help="runs per method")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    parser.add_argument("--report-only", action="store_true", help="use the runs that are done, train nothing")
    options = parser.parse_args(arguments)
    if not options.report_only:
        prepare()
        runs = comparison_runs(options.methods, num_seeds=options.seeds)
        results = Results(RESULTS)
        order = [run for seed in zip(*runs.values(), strict=True) for run in seed]
        train_all([run for run in order if not results.has(run)], num_jobs=options.jobs, keep=results.add)
    found = curves(options.methods)
    print(f"level to reach: that of {best_grpo(found)}")
    for row in comparison(found):
        tokens, seconds = row["generated_tokens"], row["seconds"]
        print(f"{row['method']:<26} {row['level']:.3f} ({row['lowest']:.3f} to {row['highest']:.3f})", tokens, seconds)
    top = [str(row["method"]) for row in comparison(found)[:4]]
    plot(found, FOLDER / "curves.png", axes=("generated_tokens", "seconds"), shown=[*top, best_grpo(found)])


if __name__ == "__main__":
    main()
