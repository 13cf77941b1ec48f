"""Learning rate and prompts per update of every method of the field: ``python -m research.studies.field.tune``.

On a seed that the comparison does not use, and for each starting model on its own: what is best for one is not best for
the other. The first model is lost, so its grid is only printed (``--first``). A run ends at a budget of generated
tokens, and its level is the mean of the last three evaluations. The highest is taken on the first model; on the
committed one, of those that cannot be told from the highest the quickest, since tokens and seconds are both compared.
A study that was killed goes on where it was. Writes ``docs/studies/cost_benefit/tuning.jsonl``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from research.studies.field.reach import Curve, final_level
from research.studies.field.results import Results
from research.studies.field.setting import METHODS, TUNING, field_run, prepare
from research.studies.runs import StudyRun, train_all

LEARNING_RATES = (1e-4, 3e-4, 3e-5)
PROMPTS = (8, 32)
FINER_ON_FIRST = {
    **dict.fromkeys(("grpo_n4", "grpo_n8"), ((1e-4, 4), (1e-4, 16), (3e-5, 4), (1e-4, 2), (2e-4, 8))),
    "grpo_n16": ((1e-4, 4), (1e-4, 16), (3e-5, 4)),
    **dict.fromkeys(("ada_seq_balance_official", "ada_seq_pos_official"), ((1e-4, 2), (1e-4, 4))),
}
"""Further settings of GRPO, and of Seq-balance and Seq-pos, which draw many responses per prompt: so that nobody need
ask whether they would have done better beyond the edge of the grid."""
GRIDS = {
    "grpo_n4": ((1e-4, 4), (1e-4, 8), (1e-4, 16), (3e-5, 1), (3e-5, 2), (3e-5, 4), (3e-5, 8), (1e-5, 2)),
    "grpo_n4_4_updates": ((1e-4, 8), (1e-4, 16), (1e-4, 32), (3e-5, 1), (3e-5, 2), (3e-5, 4)),
    "grpo_n8": ((1e-4, 4), (1e-4, 8), (1e-4, 16), (3e-5, 1), (3e-5, 2), (3e-5, 4), (3e-5, 8)),
    "grpo_n16": ((1e-4, 4), (1e-4, 8), (1e-4, 16), (3e-5, 4)),
    "dapo_refill": ((1e-4, 4), (1e-4, 8), (3e-5, 2), (3e-5, 4), (3e-5, 8)),
    "speed_rl": ((1e-4, 4), (1e-4, 8), (3e-5, 2), (3e-5, 4)),
    **dict.fromkeys(
        ("ada_seq_balance", "ada_seq_balance_official"),
        ((1e-4, 2), (1e-4, 4), (1e-4, 8), (1e-4, 16), (3e-5, 1), (3e-5, 2), (3e-5, 4), (3e-5, 8)),
    ),
    "ada": ((1e-4, 4), (1e-4, 8), (1e-4, 16), (3e-5, 2), (3e-5, 4), (3e-5, 8)),
    "ada_4_updates": ((1e-4, 8), (1e-4, 16), (1e-4, 32), (3e-5, 2), (3e-5, 4)),
    "ada_n1": ((1e-4, 16), (1e-4, 32), (1e-4, 64), (3e-5, 16), (3e-5, 32)),
    "ada_n1_4_updates": ((1e-4, 16), (1e-4, 32), (1e-4, 64), (3e-5, 16)),
}
"""The grids on the committed model, around what was best on the first; other methods have the default."""
MAX_TOKENS = 240_000
POINTS = 6
SEED_ON_FIRST, SEED = 100, 101
NOISE = 0.015
"""Standard deviation of the difference between two runs' levels: sqrt(2) times the residual one, 0.011, of the 39 runs
from the first model about the means of methods and seeds (``tests/unit/research/studies/test_field.py``)."""


class NotTunedError(ValueError):
    """Runs of a method's grid are missing."""


@dataclass(frozen=True)
class Tuned:
    """The best settings of a method."""

    lr: float
    prompts: int
    """Prompts per update."""
    level: float
    """Held-out avg@4 at the end, mean of the last three evaluations."""


def tuning_runs(method: str, *, on_first: bool = False) -> dict[tuple[float, int], StudyRun]:
    """Return the grid of a method."""
    default = tuple(product(LEARNING_RATES, PROMPTS))
    settings = (*default, *FINER_ON_FIRST.get(method, ())) if on_first else GRIDS.get(method, default)
    seed = SEED_ON_FIRST if on_first else SEED
    return {
        (lr, prompts): field_run(
            "field/tuning", method, seed=seed, lr=lr, prompts=prompts, max_tokens=MAX_TOKENS, points=POINTS
        )
        for lr, prompts in settings
    }


def tuned(method: str, results: Results, *, on_first: bool = False) -> Tuned:
    """Return the best settings."""
    source = (on_first and METHODS[method].tuned_as_on_first) or method
    command = f"python -m research.studies.field.tune --methods {source}"
    runs = tuning_runs(source, on_first=on_first)
    return best_of(source, runs, results, command=command, noise=0.0 if on_first else NOISE)


def best_of(
    method: str, runs: Mapping[tuple[float, int], StudyRun], results: Results, *, command: str, noise: float = NOISE
) -> Tuned:
    """Return the settings that end highest, or as good as highest in less time."""
    missing = [run.name for run in runs.values() if not results.has(run)]
    if missing:
        raise NotTunedError(f"{method} is not tuned yet: {', '.join(missing)}; run {command}")
    curves = {settings: results.row(run)["curve"] for settings, run in runs.items()}
    lr, prompts = taken(curves, noise=noise)
    return Tuned(lr, prompts, final_level([curves[lr, prompts]]))


def taken(curves: Mapping[tuple[float, int], Curve], *, noise: float) -> tuple[float, int]:
    """Return the settings whose run ends highest, or of those as near as ``noise`` to it the quickest."""
    levels = {settings: final_level([curve]) for settings, curve in curves.items()}
    if noise == 0:  # the first of the grid where two are level, as on the first model, whose runs cannot be made again
        return max(levels, key=lambda settings: levels[settings])
    good = [settings for settings, level in levels.items() if level >= max(levels.values()) - noise]
    return min(good, key=lambda settings: curves[settings][-1]["seconds"])


def report(method: str, runs: Mapping[tuple[float, int], StudyRun], results: Results) -> None:
    """Print how the runs of a method ended that are done, the highest first."""
    rows = {settings: results.row(run)["curve"] for settings, run in runs.items() if results.has(run)}
    print(method)
    for (lr, prompts), curve in sorted(rows.items(), key=lambda row: -final_level([row[1]])):
        level, end = final_level([curve]), curve[-1]
        trained = end["trained_tokens"] / end["generated_tokens"]
        costs = f"{end['seconds']:.0f} s  {trained:.0%} of tokens train"
        print(f"    lr {lr:<7g} prompts {prompts:<3} held-out {level:.3f}  {costs}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, then print the grid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(GRIDS), help="methods to tune")
    parser.add_argument("--first", action="store_true", help="print what was found on the first model, train nothing")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    options = parser.parse_args(arguments)
    results = Results(TUNING)
    try:
        grid = {method: tuning_runs(method, on_first=options.first) for method in options.methods}
        if not options.first:
            prepare()
            missing = [run for runs in grid.values() for run in runs.values() if not results.has(run)]
            train_all(missing, num_jobs=options.jobs, keep=results.add)
        for method, runs in grid.items():
            report(method, runs, results)
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
