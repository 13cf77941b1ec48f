"""The best methods on the default model and two tasks: ``python -m research.studies.smollm2.compare``.

SmolLM2-135M-Instruct on sums (the task of ``make train``) and on products of numbers of one or two digits, with the
settings that ``python -m research.studies.smollm2.tune`` found. A run ends at a budget of generated tokens; two at once
take a quarter to half an hour on two cores and up to 8 GB each. A study that was killed goes on where it was, and runs
with a committed result are not repeated. Writes ``docs/studies/cost_benefit/smollm2.jsonl`` and a plot for each task.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from research.studies.field.compare import curves
from research.studies.field.curves_plot import plot
from research.studies.field.reach import Runs
from research.studies.field.results import Results, add_arguments, train_missing
from research.studies.field.setting import RESULTS, SMOLLM2, SMOLLM2_TUNING
from research.studies.field.standing import best_grpo, comparison, describe
from research.studies.field.tune import NotTunedError
from research.studies.runs import StudyRun
from research.studies.smollm2.tune import CONTESTANTS, TASKS, smollm2_run, tuned

MAX_TOKENS = 60_000
POINTS = 10
NUM_SEEDS = 3


def comparison_runs(task: str, method: str, *, num_seeds: int = NUM_SEEDS) -> list[StudyRun]:
    """Return the runs of a method on a task, with its tuned settings."""
    best = tuned(method, Results(SMOLLM2_TUNING))
    return [
        smollm2_run(
            "smollm2", task, method, seed=seed, lr=best.lr, prompts=best.prompts, max_tokens=MAX_TOKENS, points=POINTS
        )
        for seed in range(num_seeds)
    ]


def task_runs(task: str, *, num_seeds: int = NUM_SEEDS) -> dict[str, list[StudyRun]]:
    """Return the runs on a task of the methods that are tuned."""
    runs = {}
    for method in CONTESTANTS:
        with suppress(NotTunedError):
            runs[method] = comparison_runs(task, method, num_seeds=num_seeds)
    return runs


def smollm2_curves(task: str, *, num_seeds: int = NUM_SEEDS) -> dict[str, Runs]:
    """Return the learning curves on a task of the runs that are done, by method and seed."""
    return curves(task_runs(task, num_seeds=num_seeds), Results(SMOLLM2))


def with_every_seed(found: Mapping[str, Runs]) -> dict[str, Runs]:
    """Return the methods that have the most seeds: a mean over fewer shows which seeds those were."""
    most = max((len(runs) for runs in found.values()), default=0)
    return {method: runs for method, runs in found.items() if len(runs) == most}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, a seed of every task and method before the next, then report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="tasks")
    parser.add_argument("--methods", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS), help="methods to train")
    add_arguments(parser, num_seeds=NUM_SEEDS)
    options = parser.parse_args(arguments)
    try:
        if not options.report_only:
            groups = [
                comparison_runs(task, method, num_seeds=options.seeds)
                for task in options.tasks
                for method in options.methods
            ]
            train_missing(groups, Results(SMOLLM2, discard_checkpoints=True), num_jobs=options.jobs)
        for task in options.tasks:
            found = with_every_seed(smollm2_curves(task, num_seeds=options.seeds))
            print(f"{task}: level to reach: that of {best_grpo(found)}")
            for standing in comparison(found):
                print(describe(standing))
            plot(found, RESULTS / f"smollm2_{task}.png", axes=("generated_tokens", "seconds"), shown=list(found))
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
