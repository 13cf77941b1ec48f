"""Train the runs of a study and read what they logged. A study that was killed goes on where it was."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from callbacks.budget import LEARNING_PHASES
from callbacks.metrics_csv import read_metrics
from research.benchmarks.report import DOCS

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class StudyRun:
    """One training run of a study."""

    study: str
    method: str
    """Name of the experiment."""
    seed: int
    overrides: tuple[str, ...] = ()
    label: str = ""
    """Name of the run in folders and tables, where one experiment runs with different settings; else the method's."""

    @property
    def name(self) -> str:
        """What tells the run from others of its study."""
        return f"{self.label or self.method}-{self.seed}"

    @property
    def folder(self) -> Path:
        """Run folder."""
        return ROOT / "runs" / self.study / self.name

    def train(self, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        """Train unless it is done; continue where a checkpoint is."""
        if self.is_done():
            return
        started = (self.folder / "checkpoints" / "last").exists()
        if not started and self.folder.exists():
            self.folder.rename(self.folder.with_name(f"{self.folder.name}.broken"))
        command = [
            sys.executable,
            str(ROOT / "train.py"),
            f"+experiment={self.method}",
            f"seed={self.seed}",
            f"run_name={self.study}/{self.name}",
            *self.overrides,
            *(["ckpt=last"] if started else []),
        ]
        log = self.folder.parent / f"{self.folder.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        print(" ".join(command[1:]), flush=True)
        variables = {**os.environ, **environment}
        with log.open("a") as output:
            subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, check=True, env=variables)

    @property
    def result_file(self) -> Path:
        """What is committed of the run."""
        return DOCS / "studies" / self.study / f"{self.name}.json"

    def is_done(self) -> bool:
        """Whether the run ended, here or where its committed result comes from."""
        return self.result_file.exists() or self._has_finished()

    def measured(self) -> dict[str, Any]:
        """Return what the run's files say: learning curve, seconds by phase, and the settings."""
        summary = json.loads((self.folder / "summary.json").read_text())
        return {
            "method": self.method,
            "seed": self.seed,
            "overrides": list(self.overrides),
            "curve": cost_curve([dict(row) for row in read_metrics(self.folder / "metrics.csv")]),
            "seconds": summary["seconds"],
            "responses": summary["responses"],
            "generated_tokens": summary["generated_tokens"],
            "signal_ratio_mean": summary["signal_ratio_mean"],
        }

    def result(self) -> dict[str, Any]:
        """Return and keep what was measured, with (generated tokens, held-out avg@4) at each evaluation."""
        if not self.result_file.exists():
            result = self.measured()
            result["held_out"] = [(row["generated_tokens"], row["avg_at_4"]) for row in result.pop("curve")]
            self.result_file.parent.mkdir(parents=True, exist_ok=True)
            self.result_file.write_text(json.dumps(result, indent=1) + "\n")
        loaded: dict[str, Any] = json.loads(self.result_file.read_text())
        if tuple(loaded["overrides"]) != self.overrides:
            raise ValueError(f"{self.result_file} was made with {loaded['overrides']}; move it away to train it anew")
        return loaded

    def check_finished(self) -> None:
        """Make sure that the run needs no checkpoint any more."""
        if not self._has_finished():
            raise ValueError(f"{self.folder} has not finished; its checkpoints are needed to continue it")

    def discard_checkpoints(self) -> None:
        """Remove the checkpoints of a finished run; what it logged stays."""
        self.check_finished()
        shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)

    def _has_finished(self) -> bool:
        summary = self.folder / "summary.json"
        return summary.exists() and json.loads(summary.read_text()).get("status") == "finished"


COSTS = {
    "responses": ("rollout/num_sampled",),
    "generated_tokens": ("rollout/generated_tokens", "rollout/tokens_wasted"),
    "trained_tokens": ("train/trained_tokens",),
    "seconds": tuple(f"time/{phase}_s" for phase in LEARNING_PHASES),
}
"""What a run has spent, and the columns of ``metrics.csv`` that add up to it."""


def cost_curve(rows: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Return, for every evaluation, the number of updates, what has been spent by then, and held-out avg@4.

    Example:
        >>> row = {"step": 0, "eval/avg_at_4": 0.5, "rollout/num_sampled": 8, "rollout/generated_tokens": 90}
        >>> cost_curve([row, {"step": 1, "eval/avg_at_4": 0.75}])[1]["responses"]
        8.0
    """
    spent = dict.fromkeys(COSTS, 0.0)
    curve = []
    for row in rows:  # an evaluation stands in the row of the step that follows it
        if "eval/avg_at_4" in row:
            figures = {name: round(value, 3) for name, value in spent.items()}
            curve.append({"updates": row["step"], **figures, "avg_at_4": row["eval/avg_at_4"]})
        for name, columns in COSTS.items():
            spent[name] += sum(row.get(column, 0.0) for column in columns)
    return curve


def train_all(runs: Sequence[StudyRun], *, num_jobs: int, keep: Callable[[StudyRun], object]) -> None:
    """Train several runs at once, each with its share of the cores."""
    threads = max(1, (os.cpu_count() or 1) // num_jobs)

    def work(run: StudyRun) -> None:
        run.train({"OMP_NUM_THREADS": str(threads)})
        keep(run)

    with ThreadPoolExecutor(num_jobs) as pool:
        futures = [pool.submit(work, run) for run in runs]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
