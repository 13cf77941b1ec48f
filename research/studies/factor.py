"""How many times fewer tokens and seconds your runs need: ``python -m research.studies.factor RUNS... --against grpo``.

Reads the folders of finished runs, groups those that differ only in their seed, and pairs methods by seed. Factors and
intervals are those of the studies (:mod:`research.studies.curves`). With fewer than five pairs there is no interval.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ada_lightning.analysis.report.method import ABSENT, Method, group_runs, short
from ada_lightning.analysis.report.run import Run, find_runs, load_run
from research.benchmarks.report import markdown
from research.studies.curves import MIN_PAIRS, Curve, Runs, common_seeds, difference, final_level, is_at_an_end
from research.studies.curves import time_scale as factor_of
from research.studies.runs import cost_curve

COSTS = ("generated_tokens", "trained_tokens", "seconds")
MIN_EVALUATIONS = 4
"""Of a run: the level at its end is the mean of three, and before them there has to be a curve."""
EQUAL = (
    "model.",
    "data.source.",
    "data.format.",
    "reward.",
    "environment",
    "rollout.sampling.",
    "callbacks.evaluation.",
)
"""Beginnings of settings that decide what is learned and what is asked, so that methods have to share them."""
FREE = ("callbacks.evaluation.every_n_steps", "callbacks.evaluation.every_n_tokens", "reward.num_workers")
"""Settings of these that change neither."""
SPEED = ("trainer.", "rollout.engine.", "rollout.host.")
"""Beginnings of settings that change seconds alone."""


@dataclass(frozen=True)
class Compared:
    """A method next to the one that it is compared with."""

    method: Method
    curves: Runs
    """Of the seeds that both have."""


def curve_of(run: Run) -> Curve:
    """Return the learning curve of a run: held-out rate by what was spent (:func:`research.studies.runs.cost_curve`).

    Raises:
        ValueError: the run has not finished, or has too few evaluations; the text says what to do.
    """
    if run.status != "finished":
        raise ValueError(
            f"{run.folder} is not finished ({run.status}), so its curve ends too early. Continue it with ckpt=last "
            f"run_name={run.name}, or leave it out"
        )
    key = run.heldout_key
    rows = [{name: row[name] for name in row if name == key or not name.startswith("eval")} for row in run.rows]
    curve = [row for row in cost_curve(rows) if math.isfinite(row["held_out"])]
    if len(curve) < MIN_EVALUATIONS:
        raise ValueError(
            f"{run.folder} has {len(curve)} held-out evaluations with a figure, and a factor needs at least "
            f"{MIN_EVALUATIONS}. Evaluate more often: callbacks.evaluation.every_n_tokens=..., a tenth of the budget"
        )
    return curve


def curves_of(method: Method) -> Runs:
    """Return the learning curves of a method by seed.

    Raises:
        ValueError: as :func:`curve_of`; or two of its runs have one seed.
    """
    found: dict[int, Curve] = {}
    for run in method.runs:
        if run.seed in found:
            twice = " and ".join(str(other.folder) for other in method.runs if other.seed == run.seed)
            raise ValueError(f"{twice} have the same settings and the same seed {run.seed}: leave one of them out")
        found[run.seed] = curve_of(run)
    return found


def base_of(methods: Sequence[Method], name: str) -> Method:
    """Return the method of that name, or the one that a run in a folder of that name is of.

    Raises:
        ValueError: there is none, or it is the only one.
    """
    folder = Path(name).resolve()
    for method in methods:
        if method.name == name or any(run.folder.resolve() == folder for run in method.runs):
            if len(methods) == 1:
                raise ValueError(f"all runs are of one method, {method.name}: there is nothing to compare it with")
            return method
    known = ", ".join(method.name for method in methods)
    raise ValueError(f"--against {name} is no method of these runs, and no folder of one. The methods are: {known}")


def problems(base: Method, other: Method) -> Iterator[str]:
    """Yield why two methods cannot be compared."""
    keys = {method.name: {run.heldout_key for run in method.runs} for method in (base, other)}
    if len(set.union(*keys.values())) > 1:
        told = "; ".join(f"{name}: {', '.join(sorted(map(str, found)))}" for name, found in keys.items())
        yield f"held-out figures differ ({told}). Evaluate both with one callbacks.evaluation.num_samples"
    for key, ours, theirs in _differing(base, other, EQUAL):
        if key not in FREE:
            yield f"{key} is {ours} in {base.name} and {theirs} in {other.name}, so their curves are of different tasks"


def _differing(base: Method, other: Method, beginnings: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield settings whose values differ, as texts."""
    for key in dict.fromkeys((*base.settings, *other.settings)):
        ours, theirs = (method.settings.get(key, ABSENT) for method in (base, other))
        if key.startswith(tuple(beginnings)) and ours != theirs:
            yield key, short(ours), short(theirs)


def compare(methods: Sequence[Method], against: str) -> tuple[Compared, list[Compared]]:
    """Return the method that is compared with, and the others.

    Raises:
        ValueError: something cannot be compared; a line for each reason.
    """
    base = base_of(methods, against)
    others = [method for method in methods if method is not base]
    if errors := list(dict.fromkeys(line for other in others for line in problems(base, other))):
        raise ValueError("\n".join(errors))
    found = [Compared(method, curves_of(method)) for method in (base, *others)]
    for other in found[1:]:
        common_seeds(found[0].curves, other.curves)
    return found[0], found[1:]


def table(base: Compared, others: Sequence[Compared]) -> str:
    """Return a row for each method: seeds, level at the end, and by cost how many times less it spends."""
    rows: list[list[Any]] = [
        [base.method.name, len(base.curves), f"{final_level([*base.curves.values()]):.3f}", "", "1", "1", "1"]
    ]
    for other in others:
        seeds = common_seeds(base.curves, other.curves)
        scales = [factor_of(base.curves, other.curves, cost) for cost in COSTS]
        rows.append(
            [
                other.method.name,
                len(seeds),
                f"{final_level([other.curves[seed] for seed in seeds]):.3f}",
                difference(base.curves, other.curves).written("+.3f"),
                *("none fits" if is_at_an_end(scale.value) else scale.written(".2f") for scale in scales),
            ]
        )
    costs = [f"times fewer {cost.replace('_', ' ')}" for cost in COSTS]
    return markdown(["method", "pairs", "at the end", f"minus {base.method.name}'s", *costs], rows)


def remarks(base: Compared, others: Sequence[Compared]) -> Iterator[str]:
    """Yield how to read the table, and what makes it doubtful."""
    key = str(base.method.runs[0].heldout_key).removeprefix("eval/").replace("avg_at_", "avg@")
    yield f"At the end: held-out {key}, mean of the last three evaluations."
    yield f"Factors are along the whole run, against {base.method.name}. Above 1 is a saving."
    yield "Brackets hold 95 % intervals over pairs of runs with the same seed."
    for other in others:
        name, pairs = other.method.name, common_seeds(base.curves, other.curves)
        if len(pairs) < MIN_PAIRS:
            number = "1 pair has" if len(pairs) == 1 else f"{len(pairs)} pairs have"
            yield f"{name}: {number} no interval, which decides nothing. Run at least {MIN_PAIRS} seeds of each."
        if left_out := sorted(set(base.curves) ^ set(other.curves)):
            yield f"{name}: seeds {', '.join(map(str, left_out))} have no partner and count in no factor."
        if differing := [key for key, *_ in _differing(base.method, other.method, SPEED)]:
            settings = ", ".join(differing)
            yield f"{name}: do not compare seconds, which are of other hardware or another engine ({settings})."


def main(arguments: Sequence[str] | None = None) -> None:
    """Read, compare, print."""
    parser = argparse.ArgumentParser(prog="python -m research.studies.factor", description=__doc__.partition(":")[0])
    parser.add_argument("runs", nargs="+", help="folders of runs, folders that hold runs, patterns, or names of runs")
    parser.add_argument(
        "--against", required=True, help="the method to compare with: its name, or a folder of its runs"
    )
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"), help="folder in which runs are found by name")
    options = parser.parse_args(arguments)
    try:
        found, left_out = find_runs(options.runs, runs_dir=options.runs_dir)
        base, others = compare(group_runs([load_run(run) for run in found]), options.against)
    except (ValueError, OSError) as error:
        sys.exit("\n".join(f"error: {line}" for line in str(error).splitlines()))
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    print(table(base, others))
    print("\n".join(remarks(base, others)))


if __name__ == "__main__":
    main()
