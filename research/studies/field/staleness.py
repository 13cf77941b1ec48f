"""What sampling from an older policy does to learning, apart from time: ``python -m research.studies.field.staleness``.

The field's task with GRPO's groups of four and a lag of 0, 1, 2 and 4 steps, emulated (``rollout.max_staleness``), each
with PPO's clip around the policy that sampled. Drift grows with the lag and with the learning rate alike, so one rate
for all would flatter or damn the lag: ``--tune`` trains a grid for each of them first, on a seed that the comparison
does not use. Reports the held-out rate at the end, and tokens along the whole curve beside those without a lag. A study
that was killed goes on where it was. Writes ``docs/studies/staleness/{tuning,runs}.jsonl``. Seconds say nothing here:
nothing overlaps.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from statistics import fmean

from research.benchmarks.report import DOCS, markdown
from research.studies.curves import difference, final_level, time_scale
from research.studies.field.setting import field_run, prepare, second_seeds
from research.studies.methods import Settings
from research.studies.runs import Results, StudyRun, train_missing
from research.studies.tuning import NotTunedError, Tuning

LAGS = (0, 1, 2, 4)
NUM_SEEDS = 3
RESULTS = DOCS / "studies" / "staleness"
RATES = (1e-5, 3e-5, 1e-4, 3e-4)
PROMPTS = 4
"""Per update, as many as GRPO's groups of four took where their settings were found."""
TUNING_SEED = 102
_ANCHOR = ("loss.anchor=behaviour", "loss.importance_cap=0")


def lag_run(study: str, name: str, settings: Settings, *, seed: int, max_tokens: int, points: int) -> StudyRun:
    """Return a run; ``name`` is that of its lag, such as ``lag_2``."""
    more = (f"rollout.max_staleness={name.removeprefix('lag_')}", *_ANCHOR)
    return field_run(
        f"staleness/{study}",
        "grpo_n4",
        settings,
        seed=seed,
        max_tokens=max_tokens,
        points=points,
        more=more,
        prefix=f"{name}-",
    )


def tuning_run(name: str, settings: Settings) -> StudyRun:
    """Return a run of a grid."""
    return lag_run("tuning", name, settings, seed=TUNING_SEED, max_tokens=240_000, points=6)


TUNING = Tuning(
    RESULTS / "tuning.jsonl",
    "python -m research.studies.field.staleness --tune",
    {f"lag_{lag}": [Settings(rate, PROMPTS) for rate in RATES] for lag in LAGS},
    tuning_run,
    prepare=prepare,
)


def comparison_runs(num_seeds: int) -> dict[str, list[StudyRun]]:
    """Return the runs by name of the lag, each at its own learning rate."""
    return {
        name: [
            lag_run("runs", name, TUNING.tuned(name), seed=seed, max_tokens=480_000, points=12)
            for seed in second_seeds(num_seeds)
        ]
        for name in TUNING.grids
    }


def table(runs: dict[str, list[StudyRun]], results: Results) -> str:
    """Return where each lag ends, and how many times fewer tokens it spends than no lag."""
    curves = {name: {run.seed: results.row(run)["curve"] for run in each} for name, each in runs.items()}
    base, rows = curves["lag_0"], []
    for name, found in curves.items():
        levels = [final_level([curve]) for curve in found.values()]
        scale = "1" if name == "lag_0" else time_scale(base, found, "generated_tokens").written(".2f")
        gain = "0" if name == "lag_0" else difference(base, found).written("+.3f")
        level = f"{fmean(levels):.3f} ({min(levels):.3f} to {max(levels):.3f})"
        rows.append([name.removeprefix("lag_"), level, gain, scale])
    return markdown(["lag", "held-out at the end", "minus that of no lag", "times fewer tokens"], rows)


def report() -> str:
    """Return the table of the seeds that every lag has."""
    results = Results(RESULTS / "runs.jsonl")
    try:
        runs = comparison_runs(NUM_SEEDS)
    except NotTunedError:
        return "No figures yet.\n"
    seeds = set.intersection(*({run.seed for run in each if results.has(run)} for each in runs.values()))
    if not seeds:
        return "No figures yet.\n"
    return table({name: [run for run in each if run.seed in seeds] for name, each in runs.items()}, results)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tune", action="store_true", help="train the grids of learning rates instead")
    parser.add_argument("--seeds", type=int, default=NUM_SEEDS, help="of each lag")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    options = parser.parse_args(arguments)
    if options.tune:
        TUNING.main(str(__doc__), ["--jobs", str(options.jobs)])
        return
    try:
        runs, results = comparison_runs(options.seeds), Results(RESULTS / "runs.jsonl")
        missing = [run for each in runs.values() for run in each if not results.has(run)]
        if missing:
            prepare()
            train_missing(missing, results, num_jobs=options.jobs)
    except ValueError as error:
        sys.exit(f"error: {error}")
    print(table(runs, results))


if __name__ == "__main__":
    main()
