"""The best of the field on the default model and two tasks: ``python -m studies.smollm2``.

SmolLM2-135M-Instruct on sums (the task of ``make train``) and on products of numbers of one or two digits. All methods
have one learning rate, the project's default, and the same number of generated responses per update, so Seq-balance,
which keeps four of a prompt's, trains on fewer; a run ends at a budget of generated tokens. A run is a quarter of an
hour on two cores and takes up to 8 GB. A study that was killed goes on where it was, and runs with a committed result
are not repeated. Writes ``docs/studies/cost_benefit/smollm2.jsonl`` and a plot for each task.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from studies.field.compare import Standing, best_grpo, comparison, curves, describe, plot
from studies.field.methods import METHODS
from studies.field.place import FOLDER, SMOLLM2
from studies.field.reach import Runs
from studies.field.results import Results, add_arguments, train_missing
from studies.field.setting import QUIET
from studies.runs import StudyRun

MAX_TOKENS = 160_000
POINTS = 10
NUM_SEEDS = 3
LEARNING_RATE = 1e-5
RESPONSES_PER_UPDATE = 128
TASKS = ("chain_sum", "products")
PROMPTS: Mapping[str, int] = {"grpo_n4": 32, "grpo_n8": 16, "ada": 32, "ada_n2": 64, "ada_seq_balance_official": 8}
"""Prompts per step: :data:`RESPONSES_PER_UPDATE` over responses per prompt; for Seq-balance about what it draws."""


def smollm2_run(task: str, method: str, *, seed: int) -> StudyRun:
    """Return a run of a method on a task.

    Args:
        task: a file in ``conf/data/source/tasks``.
        method: name in :data:`PROMPTS`.
        seed: of problems, their order and responses.
    """
    contestant = METHODS[method]
    overrides = (
        f"data/source/tasks={task}",
        *contestant.settings,
        f"optimizer.lr={LEARNING_RATE:g}",
        f"data.prompts_per_step={PROMPTS[method]}",
        "num_steps=100000",
        f"callbacks.budget.max_generated_tokens={MAX_TOKENS}",
        f"callbacks.evaluation.every_n_tokens={MAX_TOKENS // POINTS}",
        "callbacks.evaluation.every_n_steps=0",
        "callbacks.evaluation.num_prompts=128",
        "callbacks.checkpoint.every_n_steps=10",
        *QUIET,
    )
    return StudyRun(f"smollm2/{task}", contestant.experiment, seed, overrides, label=f"{task}-{method}")


def smollm2_curves(task: str, *, num_seeds: int = NUM_SEEDS) -> dict[str, Runs]:
    """Return the learning curves on a task of the runs that are done, by method and seed."""
    runs = {method: [smollm2_run(task, method, seed=seed) for seed in range(num_seeds)] for method in PROMPTS}
    return curves(runs, Results(SMOLLM2))


def standings(task: str, *, num_seeds: int = NUM_SEEDS) -> list[Standing]:
    """Return how the methods stand on a task, the highest first.

    Raises:
        ValueError: no GRPO run of the task is done.
    """
    return comparison(smollm2_curves(task, num_seeds=num_seeds))


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, a seed of every task and method before the next, then report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="tasks")
    parser.add_argument("--methods", nargs="+", choices=PROMPTS, default=list(PROMPTS), help="methods to train")
    add_arguments(parser, num_seeds=NUM_SEEDS)
    options = parser.parse_args(arguments)
    try:
        if not options.report_only:
            groups = [
                [smollm2_run(task, method, seed=seed) for seed in range(options.seeds)]
                for task in options.tasks
                for method in options.methods
            ]
            train_missing(groups, Results(SMOLLM2), num_jobs=options.jobs)
        for task in options.tasks:
            found = smollm2_curves(task, num_seeds=options.seeds)
            print(f"{task}: level to reach: that of {best_grpo(found)}")
            for standing in comparison(found):
                print(describe(standing))
            plot(found, FOLDER / f"smollm2_{task}.png", axes=("generated_tokens", "seconds"), shown=list(found))
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
