"""TRL alone and TRL with adaptive rollouts, tuned alike, five seeds: ``python -m research.studies.trl_side_by_side``.

The field's committed model and sums (:mod:`research.studies.field`), to as many generated tokens for everyone. Learning
rate and prompts per step are those of one grid for all, by the mean level of two seeds that the comparison does not
use. A study that was killed goes on where it was. Writes ``docs/studies/trl/tuning.jsonl``, ``runs.jsonl`` and a plot.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from research.benchmarks.report import DOCS, markdown
from research.studies.contest import Contest, main
from research.studies.curves import TOKENS, final_level
from research.studies.field.setting import MODEL_SIZE, prepare
from research.studies.methods import Settings
from research.studies.runs import ROOT, Results, StudyRun, train_missing
from research.studies.tuning import NotTunedError

RESULTS = DOCS / "studies" / "trl"
METHODS = ("trl", "grpo", "grpo_chosen", "ada")
"""The trainer alone; GRPO through the adapter, which differs in its denominator; and with prompts that are chosen."""
GRID = (Settings(1e-4, 8), Settings(1e-4, 16), Settings(3e-5, 4), Settings(3e-5, 8))
TUNING_SEEDS = (101, 102)
NUM_SEEDS = 5
MAX_TOKENS, POINTS = 240_000, 6


class TrlRun(StudyRun):
    """A run of :mod:`research.studies.trl_run`; one that was killed begins anew."""

    def train(self, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        """Train unless it is done."""
        if self.is_done():
            return
        command = [
            *(sys.executable, "-m", "research.studies.trl_run", f"--method={self.experiment}", f"--seed={self.seed}"),
            *(f"--folder={self.folder.relative_to(ROOT)}", *self.overrides),
        ]
        print(" ".join(command[1:]), flush=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log.txt").open("w") as output:
            variables = {**os.environ, **environment}
            subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, check=True, env=variables)

    def is_done(self) -> bool:
        """Whether the run has finished here."""
        return (self.folder / "result.json").exists()

    def measured(self) -> dict[str, Any]:
        """Return the learning curve and the settings."""
        found = json.loads((self.folder / "result.json").read_text())
        return {"method": self.experiment, "seed": self.seed, "overrides": list(self.overrides), **found}


def trl_run(study: str, method: str, settings: Settings, seed: int) -> TrlRun:
    """Return a run to the budget."""
    overrides = (
        f"--lr={settings.lr:g}",
        f"--prompts={settings.prompts}",
        f"--max-tokens={MAX_TOKENS}",
        f"--points={POINTS}",
    )
    return TrlRun(f"trl/{study}", method, seed, overrides, label=f"{method}-lr{settings.lr:g}-p{settings.prompts}")


def tuning_results() -> Results:
    """Return what is known of the grid."""
    return Results(RESULTS / "tuning.jsonl")


def level(method: str, settings: Settings, results: Results) -> float:
    """Return the mean level of a method's tuning runs with these settings.

    Raises:
        NotTunedError: one is missing.
    """
    runs = [trl_run("tuning", method, settings, seed) for seed in TUNING_SEEDS]
    if missing := [run.name for run in runs if not results.has(run)]:
        raise NotTunedError(f"{method} is not tuned yet: {', '.join(missing)}")
    return final_level([results.row(run)["curve"] for run in runs])


def tuned(method: str) -> Settings:
    """Return the settings with which a method ends highest."""
    results = tuning_results()
    return max(GRID, key=lambda settings: level(method, settings, results))


def tune() -> None:
    """Train the missing runs of the grid, a setting of everyone before the next."""
    prepare()
    runs = [
        trl_run("tuning", method, settings, seed) for seed in TUNING_SEEDS for settings in GRID for method in METHODS
    ]
    train_missing(runs, tuning_results(), num_jobs=2)


def tuning_table() -> str:
    """Return the level of every method by its settings; what was taken in bold."""
    results, lines = tuning_results(), []
    for method in METHODS:
        levels = [level(method, settings, results) for settings in GRID]
        lines.append([f"`{method}`", *(f"**{x:.3f}**" if x == max(levels) else f"{x:.3f}" for x in levels)])
    return markdown(["method", *(f"{settings.lr:g}, {settings.prompts}" for settings in GRID)], lines)


def compared_runs(num_seeds: int) -> dict[str, list[StudyRun]]:
    """Return the runs of the comparison, by method."""
    return {method: [trl_run("runs", method, tuned(method), seed) for seed in range(num_seeds)] for method in METHODS}


CONTEST = Contest(
    "trl",
    RESULTS / "runs.jsonl",
    compared_runs,
    NUM_SEEDS,
    picture=RESULTS / "curves.png",
    title=f"{MODEL_SIZE}, TRL's trainer",
    shown=METHODS,
    comparator={TOKENS: "trl", "seconds": "trl"},
    grpo=("trl", "grpo"),
)

if __name__ == "__main__":
    main(str(__doc__), [CONTEST], prepare=tune)
