"""Does adaptive sampling pay? All methods of the field, tuned alike: ``python -m studies.field.compare``.

Each method runs with the settings that ``python -m studies.field.tune`` found for it (those with four updates per
rollout with what was found for one), on several seeds, to the same number of generated tokens, longer than it was tuned
for. Compared are learning curves against updates, generated tokens, trained tokens and seconds, and what each spends to
reach the level where the best GRPO ends. A study that was killed goes on where it was. Writes
``docs/studies/cost_benefit/runs.jsonl`` and the plot beside it.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from studies.field.methods import METHODS
from studies.field.place import FOLDER, RUNS, TUNING
from studies.field.reach import Estimate, Runs, difference, final_level, level_after, mean_curve, saving
from studies.field.results import Results, add_arguments, train_missing
from studies.field.setting import field_run, prepare
from studies.field.tune import tuned
from studies.runs import StudyRun

MAX_TOKENS = 480_000
POINTS = 12
NUM_SEEDS = 5
NUM_FIRST = 3
"""Seeds below this started from a model that is lost: the same command as for the committed one, on another machine."""
GRPO = ("grpo_n4", "grpo_n4_4_updates", "grpo_n8", "grpo_n16")
COMPARED = (
    *GRPO,
    *("dapo_refill", "pods", "vip"),
    *("ada_seq_pos_official", "ada_seq_balance_official", "ada_est_ema"),
    *("ada", "ada_n1", "ada_n1_4_updates"),
)
SHARES = (0.25, 0.5, 1.0)
"""Of the run of the best GRPO, for the levels it is at by then."""
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

    def run(method: str, seed: int) -> StudyRun:
        best = tuned(method, tuning, on_second=seed >= NUM_FIRST)
        return field_run(
            "field/runs", method, seed=seed, lr=best.lr, prompts=best.prompts, max_tokens=MAX_TOKENS, points=POINTS
        )

    return {method: [run(method, seed) for seed in range(num_seeds)] for method in methods}


@dataclass(frozen=True)
class Standing:
    """Where a method ends, and what it spends beside the best GRPO."""

    method: str
    num_seeds: int
    level: float
    """Held-out avg@4 at the end, mean over seeds; then the lowest and the highest of them."""
    lowest: float
    highest: float
    gain: Estimate
    """Level minus that of the GRPO that ends highest."""
    savings: Mapping[str, Estimate]
    """By cost: how many times less it spends than the best GRPO to reach the level where GRPO ends."""


def curves(runs: Mapping[str, Sequence[StudyRun]], results: Results) -> dict[str, Runs]:
    """Return the learning curves of the runs that are done, by method and seed."""
    found = {
        method: {run.seed: results.row(run)["curve"] for run in group if results.has(run)}
        for method, group in runs.items()
    }
    return {method: rows for method, rows in found.items() if rows}


def best_grpo(found: Mapping[str, Runs]) -> str:
    """Return the kind of GRPO that ends highest.

    Raises:
        ValueError: none has a run that is done.
    """
    present = [name for name in GRPO if name in found]
    if not present:
        raise ValueError(f"no run of {', '.join(GRPO)} is done, so there is nothing to compare with; train one first")
    return max(present, key=lambda name: final_level(list(found[name].values())))


def comparison(found: Mapping[str, Runs]) -> list[Standing]:
    """Return how every method stands, the highest first."""
    highest = found[best_grpo(found)]
    bases = [found[name] for name in GRPO if name in found]
    standings = []
    for method, runs in found.items():
        levels = [final_level([run]) for run in runs.values()]
        savings = {cost: saving(bases, runs, cost) for cost in AXES}
        gain = difference(highest, runs)
        standings.append(Standing(method, len(runs), float(np.mean(levels)), min(levels), max(levels), gain, savings))
    return sorted(standings, key=lambda standing: -standing.level)


@dataclass(frozen=True)
class Milestone:
    """A level on GRPO's way, and what the others spend to reach it."""

    share: float
    """Of its run after which the best GRPO is there."""
    level: float
    """Held-out avg@4."""
    savings: Mapping[str, Mapping[str, Estimate]]
    """By method, then by cost: how many times less it spends than the best GRPO."""


def milestones(found: Mapping[str, Runs]) -> list[Milestone]:
    """Return what it takes to reach the levels where GRPO is after some of its run, and at its end.

    The later the level, the flatter are all curves there and the wider the intervals.
    """
    bases = [found[name] for name in GRPO if name in found]
    return [
        Milestone(
            share,
            max(level_after(list(runs.values()), share) for runs in bases),
            {
                method: {cost: saving(bases, runs, cost, share=share) for cost in ("generated_tokens", "seconds")}
                for method, runs in found.items()
            },
        )
        for share in SHARES
    ]


def plot(found: Mapping[str, Runs], path: Path, *, axes: Sequence[str], shown: Sequence[str]) -> None:
    """Draw mean learning curves with a band of one standard error; GRPO is black, those that are not shown are grey."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    palette = iter(("#1f6f8b", "#c8553d", "#6b8f3a", "#7a5195", "#d99a2b"))
    greys = iter(("#222222", "#777777", "#999999", "#bbbbbb"))
    colors = {method: next(greys if method in GRPO else palette) for method in shown}
    ordered = [*(method for method in found if method not in colors), *(method for method in shown if method in found)]
    figure, panels = plt.subplots(1, len(axes), figsize=(5.2 * len(axes), 4.2), constrained_layout=True, sharey=True)
    for panel, cost in zip(np.atleast_1d(panels), axes, strict=True):
        scale = 1000 if cost.endswith("tokens") else 1
        for method in ordered:
            runs = found[method]
            grid_G, rates_RG = mean_curve(list(runs.values()), cost)
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
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(COMPARED), help="methods")
    add_arguments(parser, num_seeds=NUM_SEEDS)
    options = parser.parse_args(arguments)
    try:
        runs = comparison_runs(options.methods, num_seeds=options.seeds)
        if not options.report_only:
            prepare()
            train_missing(runs.values(), Results(RUNS), num_jobs=options.jobs)
        found = curves(runs, Results(RUNS))
        base = best_grpo(found)
    except ValueError as error:
        sys.exit(f"error: {error}")
    standings = comparison(found)
    print(f"level to reach: that of {base}")
    for standing in standings:
        print(describe(standing))
    for milestone in milestones(found):
        print(f"to reach {milestone.level:.3f}, where the best GRPO is after {milestone.share:.0%} of its run")
        for method, costs in milestone.savings.items():
            tokens, seconds = costs["generated_tokens"], costs["seconds"]
            print(f"    {method:<26} tokens {times(tokens)}  seconds {times(seconds)}")
    top = [standing.method for standing in standings[:4]]
    shown = list(dict.fromkeys([*top, base]))
    plot(found, FOLDER / "curves.png", axes=("generated_tokens", "seconds"), shown=shown)


def describe(standing: Standing) -> str:
    """Return a line of text."""
    spread = f"{standing.level:.3f} ({standing.lowest:.3f} to {standing.highest:.3f})"
    tokens, seconds = standing.savings["generated_tokens"], standing.savings["seconds"]
    return f"{standing.method:<26} {spread}  tokens {times(tokens)}  seconds {times(seconds)}"


def times(estimate: Estimate) -> str:
    """Write a ratio of costs.

    Example:
        >>> times(Estimate(1.5, 1.2, 1.9)), times(Estimate(0.8, 0.5, 1.1, is_bound=True))
        ('1.50 [1.20, 1.90]', 'below 0.80')
    """
    if estimate.is_bound:
        return f"below {estimate.value:.2f}"
    return f"{estimate.value:.2f}{interval(estimate, '.2f')}"


def interval(estimate: Estimate, form: str) -> str:
    """Write an interval in brackets, nothing where a single seed gives none."""
    return "" if math.isnan(estimate.low) else f" [{estimate.low:{form}}, {estimate.high:{form}}]"


def signed(estimate: Estimate) -> str:
    """Write a difference of held-out rates."""
    return f"{estimate.value:+.3f}{interval(estimate, '+.3f')}"


if __name__ == "__main__":
    main()
