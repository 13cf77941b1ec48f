"""Prompts that are seen once, so that there is no history to use: ``python -m research.studies.field.fresh``.

The field's task from the committed model with 24,576 problems instead of 512, more than any method asks, so that none
comes back. Methods have the settings that ``python -m research.studies.field.tune`` found where problems come back;
``ada_similar``, which expects of a prompt what prompts with like words have shown, has those of ``ada``. A study that
was killed goes on where it was. Writes ``docs/studies/cost_benefit/fresh.jsonl`` and a plot.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence

from research.studies.field.compare import curves, second_seeds
from research.studies.field.curves_plot import plot
from research.studies.field.reach import Estimate, Runs
from research.studies.field.results import Results, add_arguments, train_missing
from research.studies.field.setting import FOLDER, FRESH, HELDOUT, TUNING, field_run, prepare
from research.studies.field.standing import best_grpo, comparison, describe, describe_scales, time_scales
from research.studies.field.sums import write
from research.studies.field.tune import tuned
from research.studies.runs import ROOT, StudyRun

CONTESTANTS = ("grpo_n4", "grpo_n4_4_updates", "dapo_refill", "speed_rl", "ada", "ada_4_updates")
SETTINGS_OF = {
    "ada_similar": "ada",
    "ada_similar_4_updates": "ada_4_updates",
    "ada_similar_thinned_4_updates": "ada_4_updates",
    "grpo_chosen_4_updates": "grpo_n4_4_updates",
}
"""Methods that take the settings of another, and were not tuned themselves."""
NUM_PROBLEMS = 24_576
PROBLEMS = FOLDER / "fresh.jsonl"
SHOWN = ("grpo_n4", "grpo_n4_4_updates", "grpo_chosen_4_updates", "ada_4_updates", "ada_similar_thinned_4_updates")
MAX_TOKENS = 240_000
POINTS = 6
NUM_SEEDS = 5
UNSEEN_SEEDS = (6, 7)
"""That ran after everything was settled."""


def prepare_fresh() -> None:
    """Make model and problems, unless they are there."""
    prepare()
    if not PROBLEMS.exists():
        lines = HELDOUT.read_bytes().splitlines()
        held_out = frozenset(json.loads(line)["prompt"] for line in lines)
        write(PROBLEMS, size=NUM_PROBLEMS, seed=4, apart_from=held_out)


def fresh_runs(*, num_seeds: int = NUM_SEEDS) -> dict[str, list[StudyRun]]:
    """Return the runs of each method."""
    tuning = Results(TUNING)

    def run(method: str, seed: int) -> StudyRun:
        best = tuned(SETTINGS_OF.get(method, method), tuning)
        return field_run(
            "field/fresh",
            method,
            seed=seed,
            lr=best.lr,
            prompts=best.prompts,
            max_tokens=MAX_TOKENS,
            points=POINTS,
            changes=(f"data.source.path={PROBLEMS.relative_to(ROOT)}",),
        )

    return {method: [run(method, seed) for seed in second_seeds(num_seeds)] for method in (*CONTESTANTS, *SETTINGS_OF)}


def fresh_curves(*, num_seeds: int = NUM_SEEDS) -> dict[str, Runs]:
    """Return the learning curves of the runs that are done, by method and seed."""
    return curves(fresh_runs(num_seeds=num_seeds), Results(FRESH))


def fresh_scales() -> dict[str, tuple[Estimate, Estimate, Estimate]]:
    """Return by method the time scale in tokens, in seconds, and in tokens on the seeds that nothing was chosen by.

    The last has no interval: two seeds tell of none.
    """
    found = fresh_curves()
    unseen = {
        method: {seed: curve for seed, curve in runs.items() if seed in UNSEEN_SEEDS} for method, runs in found.items()
    }
    unseen_tokens = {method: of["generated_tokens"].value for method, of in time_scales(unseen).items()}
    return {
        method: (of["generated_tokens"], of["seconds"], Estimate(unseen_tokens[method], math.nan, math.nan))
        for method, of in time_scales(found).items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, a seed of every method before the next, then report."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser, num_seeds=NUM_SEEDS)
    options = parser.parse_args(arguments)
    try:
        if not options.report_only:
            prepare_fresh()
            train_missing(fresh_runs(num_seeds=options.seeds).values(), Results(FRESH), num_jobs=options.jobs)
        found = fresh_curves(num_seeds=options.seeds)
        print(f"level to reach: that of {best_grpo(found)}")
    except ValueError as error:
        sys.exit(f"error: {error}")
    for standing in comparison(found):
        print(describe(standing))
    print(describe_scales(time_scales(found)))
    plot(found, FRESH.with_name("curves_fresh.png"), axes=("generated_tokens", "seconds"), shown=SHOWN)


if __name__ == "__main__":
    main()
