"""What is committed of many short runs: one file, a line for each."""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from research.studies.runs import StudyRun, train_all


class Results:
    """A file of JSON lines; a run is found again by its name and must have the same settings."""

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
        if self._discards:
            run.check_finished()
        row = {"name": run.name, **run.measured()}
        with self._lock:
            self._rows[run.name] = row
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        if self._discards:
            run.discard_checkpoints()


def add_arguments(parser: argparse.ArgumentParser, *, num_seeds: int) -> None:
    """Add what all studies of several seeds are asked for: ``--seeds``, ``--jobs``, ``--report-only``."""
    parser.add_argument("--seeds", type=int, default=num_seeds, help="runs of each")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    parser.add_argument("--report-only", action="store_true", help="use the runs that are done, train nothing")


def train_missing(groups: Iterable[Iterable[StudyRun]], results: Results, *, num_jobs: int) -> None:
    """Train the runs without a result, a seed of every group before the next."""
    order = [run for seed in zip(*groups, strict=True) for run in seed]
    train_all([run for run in order if not results.has(run)], num_jobs=num_jobs, keep=results.add)
