"""Train the runs of a study, read what they logged, keep a row of each; what was killed goes on where it was."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ada_lightning.callbacks.budget import LEARNING_PHASES
from ada_lightning.callbacks.metrics_csv import read_metrics

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class StudyRun:
    """One training run of a study."""

    study: str
    """Folder of its runs."""
    experiment: str
    """Name in ``conf/experiment``."""
    seed: int
    overrides: tuple[str, ...] = ()
    label: str = ""
    """Name of the run in folders and rows, where one experiment runs with different settings; else the experiment's."""

    @property
    def name(self) -> str:
        """What tells the run from others of its study."""
        return f"{self.label or self.experiment}-{self.seed}"

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
            *(each for each in self.overrides if each.startswith("--")),  # which Hydra does not find between others
            f"+experiment={self.experiment}",
            f"seed={self.seed}",
            f"run_name={self.study}/{self.name}",
            *(each for each in self.overrides if not each.startswith("--")),
            *(["ckpt=last"] if started else []),
        ]
        log = self.folder.parent / f"{self.folder.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        print(" ".join(command[1:]), flush=True)
        variables = {**os.environ, **environment}
        with log.open("a") as output:
            subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, check=True, env=variables)

    def is_done(self) -> bool:
        """Whether the run has finished here."""
        summary = self.folder / "summary.json"
        return summary.exists() and json.loads(summary.read_text()).get("status") == "finished"

    def measured(self) -> dict[str, Any]:
        """Return what the run's files say: learning curve, seconds by phase, and the settings."""
        summary = json.loads((self.folder / "summary.json").read_text())
        rows = [dict(row) for row in read_metrics(self.folder / "metrics.csv")]
        modes = mode_changes(rows)
        return {
            "method": self.experiment,
            "seed": self.seed,
            "overrides": list(self.overrides),
            "curve": cost_curve(rows),
            "seconds": summary["seconds"],
            "responses": summary["responses"],
            "generated_tokens": summary["generated_tokens"],
            "signal_ratio_mean": summary["signal_ratio_mean"],
            **({"modes": modes} if modes else {}),
        }


COSTS = {
    "responses": ("rollout/num_sampled",),
    "generated_tokens": ("rollout/generated_tokens", "rollout/tokens_wasted"),
    "trained_tokens": ("train/trained_tokens",),
    "seconds": tuple(f"time/{phase}_s" for phase in LEARNING_PHASES),
}
"""What a run has spent, and the columns of ``metrics.csv`` that add up to it."""

_HELD_OUT = re.compile(r"eval(_average)?/avg_at_\d+")


def cost_curve(rows: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Return, for every evaluation, the number of updates, what has been spent by then, and the held-out rate.

    ``held_out_average`` is that of the average of the weights, where the run keeps one.

    Example:
        >>> row = {"step": 0, "eval/avg_at_4": 0.5, "rollout/num_sampled": 8, "rollout/generated_tokens": 90}
        >>> cost_curve([row, {"step": 1, "eval/avg_at_4": 0.75}])[1]["responses"]
        8.0
    """
    spent = dict.fromkeys(COSTS, 0.0)
    curve = []
    for row in rows:  # an evaluation stands in the row of the step that follows it
        found = {key: _HELD_OUT.fullmatch(key) for key in row}
        rates = {f"held_out{match[1] or ''}": row[key] for key, match in found.items() if match}
        if rates:
            figures = {name: round(value, 3) for name, value in spent.items()}
            curve.append({"updates": row["step"], **figures, **rates})
        for name, columns in COSTS.items():
            spent[name] += sum(row.get(column, 0.0) for column in columns)
    return curve


def mode_changes(rows: Sequence[Mapping[str, float]]) -> list[list[float]]:
    """Return the steps from which on ``curriculum=auto`` had another mode, each with the mode; empty without it.

    Example:
        >>> mode_changes([{"step": 0, "curriculum/mode": 1.0}, {"step": 1, "curriculum/mode": 2.0}])
        [[0, 1.0], [1, 2.0]]
    """
    modes = [[row["step"], row["curriculum/mode"]] for row in rows if "curriculum/mode" in row]
    return [row for before, row in zip([[0, -1.0], *modes], modes, strict=False) if row[1] != before[1]]


class Results:
    """A file of JSON lines, one for each run; a run is found again by its name and must have the same settings."""

    def __init__(self, path: Path, *, discard_checkpoints: bool = False) -> None:
        self.path = path
        self._discards = discard_checkpoints
        self._lock = threading.Lock()
        self._rows: dict[str, dict[str, Any]] = {}
        if path.exists():
            self._rows = {row["name"]: row for row in map(json.loads, path.read_bytes().splitlines())}

    def has(self, run: StudyRun) -> bool:
        """Whether the run's result is here."""
        row = self._rows.get(run.name)
        if row is not None and tuple(row["overrides"]) != run.overrides:
            raise ValueError(
                f"{self.path.name} has {run.name} with other settings ({' '.join(row['overrides'])}); "
                "remove that line to train it anew"
            )
        return row is not None

    def row(self, run: StudyRun) -> dict[str, Any]:
        """Return a run's result; KeyError where :meth:`has` is false."""
        return self._rows[run.name]

    def add(self, run: StudyRun) -> None:
        """Keep the result of a run that is done; the file is always whole lines."""
        if self._discards and not run.is_done():
            raise ValueError(f"{run.folder} has not finished; its checkpoints are needed to continue it")
        row = {"name": run.name, **run.measured()}
        with self._lock:
            self._rows[run.name] = row
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        if self._discards:
            shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)


def train_missing(runs: Iterable[StudyRun], results: Results, *, num_jobs: int, num_threads: int = 0) -> None:
    """Train the runs without a result, several at once, each with its share of the cores or so many threads."""
    threads = num_threads or max(1, (os.cpu_count() or 1) // num_jobs)

    def work(run: StudyRun) -> None:
        run.train({"OMP_NUM_THREADS": str(threads)})
        results.add(run)

    with ThreadPoolExecutor(num_jobs) as pool:
        futures = [pool.submit(work, run) for run in runs if not results.has(run)]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
