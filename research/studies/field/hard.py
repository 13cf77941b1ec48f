"""Training on hard prompts alone: ``python -m research.studies.field.hard``.

``prepare.py`` draws 16 responses of each of 2,048 problems from the field's model and selects those with one or two
right, as the authors made their hard sets. GRPO, the published Seq-balance and this project's ``ada`` with one response
per prompt train on them with the settings that ``python -m research.studies.field.tune`` found, three seeds each;
``evaluate.py`` then draws 16 responses of each held-out problem. Improvement is told by difficulty: one draw of the
untrained model makes the bins, and what it can do is measured by another, so that the bins' luck does not look like
learning. A study that was killed goes on where it was. Writes ``docs/studies/hard_prompts/``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from scipy import stats

from research.studies.field.compare import second_seeds
from research.studies.field.hard_plot import plot
from research.studies.field.reach import Estimate, Floats
from research.studies.field.results import Results, add_arguments, train_missing
from research.studies.field.setting import (
    ENGINE_ARGUMENTS,
    HARD,
    HELDOUT,
    MODEL_ARGUMENTS,
    NUM_HELDOUT,
    TUNING,
    field_run,
    prepare,
)
from research.studies.field.setting import FOLDER as FIELD
from research.studies.field.standing import BinOutcome, signed
from research.studies.field.sums import write
from research.studies.field.tune import tuned
from research.studies.group_signal.draw import counted
from research.studies.runs import ROOT, StudyRun

CONTESTANTS = ("grpo_n4", "grpo_n16", "ada_seq_balance_official", "ada_n1")
NUM_SEEDS = 3
MAX_TOKENS = 240_000
POINTS = 6
NUM_RESPONSES = 16
POOL = FIELD / "hard_pool.jsonl"
POOL_SIZE = 2048
PREPARED = "field_hard"
BINS = ((0.0, 0.0), (0.0, 1 / 8), (1 / 8, 1 / 2), (1 / 2, 1.0))
"""Bounds of starting pass rates: above the first, up to the second; the first bin is 0 alone."""
_MODEL = (*MODEL_ARGUMENTS, "reward=exact_match", "data.max_prompt_tokens=72", *ENGINE_ARGUMENTS)


def select_hard() -> None:
    """Write the pool of problems, draw from it and select; what is there is kept."""
    prepare()
    if not POOL.exists():
        lines = HELDOUT.read_bytes().splitlines()
        write(POOL, size=POOL_SIZE, seed=3, apart_from=frozenset(json.loads(line)["prompt"] for line in lines))
    arguments = (*_MODEL, f"data.source.path={POOL.relative_to(ROOT)}", "data.source.num_heldout=1")
    run_program("prepare.py", *arguments, f"num_samples={NUM_RESPONSES}", "band=hard", f"run_name={PREPARED}")


def run_program(*command: str) -> None:
    """Run a program of the project."""
    print(" ".join(command), flush=True)
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True)


def hard_runs(method: str, *, num_seeds: int = NUM_SEEDS) -> list[StudyRun]:
    """Return the training runs of a method, with its tuned settings."""
    best = tuned(method, Results(TUNING))
    changes = (f"data.source.path={POOL.relative_to(ROOT)}", f"data.only=prepared/{PREPARED}")
    return [
        field_run(
            "field/hard",
            method,
            seed=seed,
            lr=best.lr,
            prompts=best.prompts,
            max_tokens=MAX_TOKENS,
            points=POINTS,
            change="hard",
            changes=changes,
        )
        for seed in second_seeds(num_seeds)
    ]


class Rates:
    """Pass rates of the held-out problems by model, drawn with ``evaluate.py`` and committed as counts."""

    def __init__(self) -> None:
        self.file = HARD / "heldout.jsonl"
        self._rows: dict[str, dict[str, Any]] = {}
        if self.file.exists():
            self._rows = {row["name"]: row for row in map(json.loads, self.file.read_bytes().splitlines())}

    def has(self, name: str, arguments: Sequence[str]) -> bool:
        """Whether a model has been drawn from."""
        row = self._rows.get(name)
        if row is not None and row["arguments"] != list(arguments):
            raise ValueError(
                f"{self.file.name} has {name} of other settings ({' '.join(row['arguments'])}); remove that line, and "
                f"evaluations/{_evaluation(name)}, to draw anew"
            )
        return row is not None

    def of(self, name: str) -> Floats:
        """Return the pass rates under a model, of the same problems for all. Shape ``(problems,)``."""
        return np.array(self._rows[name]["right"]) / NUM_RESPONSES

    def draw(self, name: str, arguments: Sequence[str], which: Sequence[str]) -> None:
        """Draw from a model and keep the counts, unless they are there."""
        if self.has(name, arguments):
            return
        sizes = (f"eval.num_samples={NUM_RESPONSES}", f"run_name={_evaluation(name)}", f"label={name}", "mlflow=null")
        run_program("evaluate.py", *which, *sizes)
        rows = sorted(counted(ROOT / "evaluations" / _evaluation(name))["prompts"])
        problems = hashlib.sha256(" ".join(row[0] for row in rows).encode()).hexdigest()
        for other in self._rows.values():
            if other["problems"] != problems:
                raise ValueError(
                    f"{name} was drawn on other problems than {other['name']}; make the field's files anew"
                )
        self._rows[name] = {
            "name": name,
            "arguments": list(arguments),
            "problems": problems,
            "right": [right for _, right, *_ in rows],
        }
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self._rows[name]) + "\n")


def _evaluation(name: str) -> str:
    return f"field_hard-{name}"


def outcomes(chosen_P: Floats, before_P: Floats, after: Mapping[str, Mapping[int, Floats]]) -> list[BinOutcome]:
    """Return the improvement by difficulty."""
    found = []
    for low, high in BINS:
        inside = np.flatnonzero((chosen_P == 0) if high == 0 else (chosen_P > low) & (chosen_P <= high))
        if len(inside) < 2:
            continue
        gains, leads = {}, {}
        first = next(iter(after.values()), {})
        for method, runs in after.items():
            gains[method] = _estimate(np.array([run[inside] for run in runs.values()]) - before_P[inside])
            if seeds := [seed for seed in runs if seed in first]:
                leads[method] = _estimate(np.array([runs[seed][inside] - first[seed][inside] for seed in seeds]))
        found.append(BinOutcome(low, high, len(inside), float(before_P[inside].mean()), gains, leads))
    return found


def _estimate(values_RP: Floats) -> Estimate:
    """Return the mean over runs and problems; both are samples, and the interval adds up what each contributes."""
    num_runs, num_problems = values_RP.shape
    variance = values_RP.mean(0).var(ddof=1) / num_problems
    freedom = num_problems - 1
    if num_runs > 1:
        variance += values_RP.mean(1).var(ddof=1) / num_runs
        freedom = num_runs - 1
    margin = float(stats.t.ppf(0.975, freedom)) * float(np.sqrt(variance))
    value = float(values_RP.mean())
    return Estimate(value, value - margin, value + margin)


def found_outcomes(*, num_seeds: int = NUM_SEEDS) -> list[BinOutcome]:
    """Return the improvement by difficulty of all runs that are done."""
    rates = Rates()
    if not all(rates.has(name, _MODEL) for name in ("start_bins", "start")):
        raise ValueError(
            f"{rates.file.name} has no draw of the untrained model; run python -m research.studies.field.hard"
        )
    after = {
        method: {
            run.seed: rates.of(run.name)
            for run in hard_runs(method, num_seeds=num_seeds)
            if rates.has(run.name, run.overrides)
        }
        for method in CONTESTANTS
    }
    return outcomes(rates.of("start_bins"), rates.of("start"), {method: runs for method, runs in after.items() if runs})


def selected() -> dict[str, Any]:
    """Return what ``prepare.py`` found, from the committed copy of its summary."""
    content: dict[str, Any] = json.loads((HARD / "selected.json").read_text())
    return content


def main(arguments: Sequence[str] | None = None) -> None:
    """Select, train and draw what is missing, then report."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser, num_seeds=NUM_SEEDS)
    options = parser.parse_args(arguments)
    try:
        if not options.report_only:
            _complete(options.seeds, options.jobs)
        found = found_outcomes(num_seeds=options.seeds)
    except ValueError as error:
        sys.exit(f"error: {error}")
    for outcome in found:
        print(f"starting pass rate {outcome.name}: {outcome.num_problems} problems, before {outcome.before:.3f}")
        for method, gain in outcome.gains.items():
            print(f"    {method:<26} {signed(gain)}  over {CONTESTANTS[0]} {signed(outcome.leads[method])}")
    plot(found, HARD / "gains.png")


def _complete(num_seeds: int, num_jobs: int) -> None:
    select_hard()
    summary = json.loads((ROOT / "prepared" / PREPARED / "summary.json").read_text())
    HARD.mkdir(parents=True, exist_ok=True)
    (HARD / "selected.json").write_text(json.dumps(summary, indent=1) + "\n")
    groups = [hard_runs(method, num_seeds=num_seeds) for method in CONTESTANTS]
    train_missing(groups, Results(HARD / "runs.jsonl"), num_jobs=num_jobs)
    rates = Rates()
    own = (f"data.source.path={HELDOUT.relative_to(ROOT)}", f"data.source.heldout_path={HELDOUT.relative_to(ROOT)}")
    for name, seed in (("start_bins", 1), ("start", 2)):
        rates.draw(name, _MODEL, (*_MODEL, *own, f"data.source.num_heldout={NUM_HELDOUT}", f"rollout.seed={seed}"))
    for run in chain.from_iterable(groups):
        rates.draw(run.name, run.overrides, (f"checkpoint={run.folder.relative_to(ROOT)}", "rollout.seed=3"))


if __name__ == "__main__":
    main()
