"""What all runs of the default model share: model, tasks, evaluation, budget."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from itertools import product

from research.studies.field.results import Results
from research.studies.field.setting import METHODS, QUIET, SMOLLM2_TUNING
from research.studies.field.tune import Tuned, best_of, report
from research.studies.runs import StudyRun, train_all

TASKS = ("chain_sum", "products")
CONTESTANTS = (
    "grpo_n4",
    "grpo_n4_4_updates",
    "grpo_chosen_4_updates",
    "ada_similar_4_updates",
    "ada_similar_thinned_4_updates",
)
"""The two kinds of GRPO that did best in the field, and the three methods that did best where prompts are seen once:
GRPO on the prompts that ``ada_similar`` chooses, and ``ada_similar``, also with fewer tokens trained. ``ada`` itself
ended where GRPO does in tuning, and trained on all it drew."""
NUM_TRAIN = 256
"""Few enough that each comes back several times in a run, as prompts do in a long one: a memory needs that."""


def smollm2_run(
    study: str, task: str, method: str, *, seed: int, lr: float, prompts: int, max_tokens: int, points: int
) -> StudyRun:
    """Return a run of a method on a task with its two tuned settings."""
    contestant = METHODS[method]
    overrides = (
        f"data/source/tasks={task}",
        f"data.source.num_train={NUM_TRAIN}",
        *contestant.settings,
        f"optimizer.lr={lr:g}",
        f"data.prompts_per_step={prompts * contestant.updates}",
        *([f"data.num_minibatches={contestant.updates}"] if contestant.updates > 1 else []),
        "num_steps=100000",
        f"callbacks.budget.max_generated_tokens={max_tokens}",
        f"callbacks.evaluation.every_n_tokens={max_tokens // points}",
        "callbacks.evaluation.every_n_steps=0",
        "callbacks.evaluation.num_prompts=128",
        "callbacks.checkpoint.every_n_steps=10",
        *QUIET,
    )
    label = f"{task}-{method}-lr{lr:g}-p{prompts}"
    return StudyRun(f"{study}/{task}", contestant.experiment, seed, overrides, label=label)


TASK = "chain_sum"
SMALL, LARGE = (3e-6, 1e-5, 3e-5), (1e-5, 3e-5)
"""Learning rates for 32 responses per update, and for 128: the best for 32 was at the lower edge of the first two."""
GRIDS: Mapping[str, tuple[tuple[float, int], ...]] = {
    "grpo_n4": (*product(SMALL, (8,)), *product(LARGE, (32,))),
    "grpo_n4_4_updates": tuple(product(SMALL[:2], (8,))),
    "ada": (*product(SMALL, (8,)), *product(LARGE, (32,))),
    "ada_thinned_4_updates": tuple(product(SMALL[:2], (8,))),
    "grpo_n8": tuple(product(LARGE, (4, 16))),
    "ada_drift": ((1e-5, 8),),
    "ada_thinned": ((1e-5, 8),),
}
"""Learning rates and prompts per update: 32 and 128 responses; with four updates per rollout 32, since 4 times 128
would leave a run of this length five rollouts, and rates up to the best of one update. The last four decide nothing:
groups of eight did not do better than groups of four, what differs from ``ada`` in its memory or in what it leaves out
takes the settings of ``ada``, and with four updates per rollout that ended lower."""
SETTINGS_OF = dict.fromkeys(("ada_thinned", "ada_similar_4_updates", "ada_similar_thinned_4_updates"), "ada") | {
    "grpo_chosen_4_updates": "grpo_n4_4_updates"
}
"""Methods that take the settings of another and have no tuning of their own. Those of ``ada`` are 32 responses per
update at 1e-5, what was found for GRPO too, with one update per rollout and with four."""
MAX_TOKENS = 60_000
POINTS = 5
SEED = 100


def tuning_runs(method: str) -> dict[tuple[float, int], StudyRun]:
    """Return the grid of a method."""
    return {
        (lr, prompts): smollm2_run(
            "smollm2/tuning", TASK, method, seed=SEED, lr=lr, prompts=prompts, max_tokens=MAX_TOKENS, points=POINTS
        )
        for lr, prompts in GRIDS[method]
    }


def tuned(method: str, results: Results) -> Tuned:
    """Return the best settings of a method."""
    source = SETTINGS_OF.get(method, method)
    return best_of(source, tuning_runs(source), results, command="python -m research.studies.smollm2.tune", noise=0.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, then print the grid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", choices=GRIDS, default=list(GRIDS), help="methods to tune")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once, 8 GB each")
    options = parser.parse_args(arguments)
    results = Results(SMOLLM2_TUNING, discard_checkpoints=True)
    grid = {method: tuning_runs(method) for method in options.methods}
    try:
        missing = [run for runs in grid.values() for run in runs.values() if not results.has(run)]
    except ValueError as error:
        sys.exit(f"error: {error}")
    train_all(missing, num_jobs=options.jobs, keep=results.add)
    for method, runs in grid.items():
        report(method, runs, results)


if __name__ == "__main__":
    main()
