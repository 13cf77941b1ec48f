"""Does adaptive sampling pay? Tuned methods on several seeds: ``python -m research.studies.field.compare``.

Each method runs with the settings that ``python -m research.studies.field.tune`` found for it, to the same number of
generated tokens, longer than it was tuned for. Compared are learning curves against updates, generated tokens, trained
tokens and seconds, and what each spends to reach levels of the best GRPO. There are two starting models, made by one
command on two machines: all methods ran from the first, which is lost; from the committed one run GRPO and those that
did best there, tuned anew, so that the first chose what the second tests, and SPEED, which by exact sums is the
cheapest rule without a memory. A study that was killed goes on where it was. Writes
``docs/studies/cost_benefit/runs.jsonl`` and a plot for each model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence

from research.studies.field.curves_plot import plot
from research.studies.field.reach import Runs
from research.studies.field.results import Results, add_arguments, train_missing
from research.studies.field.setting import RESULTS, RUNS, TUNING, field_run, prepare
from research.studies.field.standing import (
    GRPO,
    best_grpo,
    comparison,
    describe,
    describe_scales,
    milestones,
    time_scales,
    times,
)
from research.studies.field.tune import tuned
from research.studies.runs import StudyRun

MAX_TOKENS = 480_000
POINTS = 12
FIRST_SEEDS = range(3)
"""Of runs from the first model."""
NUM_SEEDS = 5
"""Of runs from the committed model; they follow."""
ON_FIRST = (
    *GRPO,
    *("dapo_refill", "pods", "vip"),
    *("ada_seq_pos_official", "ada_seq_balance_official", "ada_est_ema"),
    *("ada", "ada_n1", "ada_n1_4_updates"),
)
ON_SECOND = (*GRPO, *("dapo_refill", "speed_rl"), *("ada", "ada_4_updates", "ada_n1", "ada_n1_4_updates"))
PARTS = ("first", "second")
"""By the model that runs start from."""


def comparison_runs(methods: Iterable[str], seeds: Iterable[int]) -> dict[str, list[StudyRun]]:
    """Return the runs of each method with its tuned settings; the seed says from which model."""
    tuning, seeds = Results(TUNING), list(seeds)

    def run(method: str, seed: int) -> StudyRun:
        best = tuned(method, tuning, on_first=seed in FIRST_SEEDS)
        return field_run(
            "field/runs", method, seed=seed, lr=best.lr, prompts=best.prompts, max_tokens=MAX_TOKENS, points=POINTS
        )

    return {method: [run(method, seed) for seed in seeds] for method in methods}


def second_seeds(num_seeds: int = NUM_SEEDS) -> range:
    """Return the seeds of runs from the committed model."""
    return range(FIRST_SEEDS.stop, FIRST_SEEDS.stop + num_seeds)


def part_runs(part: str, *, num_seeds: int = NUM_SEEDS) -> dict[str, list[StudyRun]]:
    """Return the runs of a part of the comparison by method: from the first model, or from the second."""
    if part == "first":
        return comparison_runs(ON_FIRST, FIRST_SEEDS)
    return comparison_runs(ON_SECOND, second_seeds(num_seeds))


def curves(runs: Mapping[str, Sequence[StudyRun]], results: Results) -> dict[str, Runs]:
    """Return the learning curves of the runs that are done, by method and seed."""
    found = {
        method: {run.seed: results.row(run)["curve"] for run in group if results.has(run)}
        for method, group in runs.items()
    }
    return {method: rows for method, rows in found.items() if rows}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, a seed of every method before the next, then report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", choices=ON_SECOND, default=list(ON_SECOND), help="methods to train")
    add_arguments(parser, num_seeds=NUM_SEEDS)  # of the second model
    options = parser.parse_args(arguments)
    try:
        if not options.report_only:
            runs = comparison_runs(options.methods, second_seeds(options.seeds))
            prepare()
            train_missing(runs.values(), Results(RUNS), num_jobs=options.jobs)
        for part in PARTS:
            _report(part, curves(part_runs(part, num_seeds=options.seeds), Results(RUNS)))
    except ValueError as error:
        sys.exit(f"error: {error}")


def _report(part: str, found: Mapping[str, Runs]) -> None:
    base = best_grpo(found)
    standings = comparison(found)
    print(f"{part}: level to reach: that of {base}")
    for standing in standings:
        print(describe(standing))
    print(describe_scales(time_scales(found)))
    for milestone in milestones(found):
        print(f"to reach {milestone.level:.3f}, where the best GRPO is after {milestone.share:.0%} of its run")
        for method, costs in milestone.savings.items():
            tokens, seconds = costs["generated_tokens"], costs["seconds"]
            print(f"    {method:<26} tokens {times(tokens)}  seconds {times(seconds)}")
    top = [standing.method for standing in standings if standing.method not in GRPO][:3]
    arrived = [row for row in standings if row.method in GRPO and not row.savings["seconds"].is_bound]
    quickest = [row.method for row in sorted(arrived, key=lambda row: -row.savings["seconds"].value)[:1]]
    shown = list(dict.fromkeys([*top, base, *quickest]))
    plot(found, RESULTS / f"curves_{part}.png", axes=("generated_tokens", "seconds"), shown=shown)


if __name__ == "__main__":
    main()
