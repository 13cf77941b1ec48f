"""Reads a run from its folder, and finds the folders that a command line names."""

from __future__ import annotations

import glob
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from ada_lightning.core.checks import finite_number
from ada_lightning.run.flat import flat
from ada_lightning.run.metrics_file import read_metrics
from ada_lightning.run.run_dir import RunDir

Rows = Sequence[Mapping[str, float]]
NOT_TRAINING = ("start", "preview", "eval")
"""Phases that are no part of training: they stay out of the axis of seconds."""
NEEDED = ("config.yaml", "metrics.csv")
"""What makes a folder a run: its settings and its figures."""


@dataclass(frozen=True)
class Run:
    """Settings, figures and closing summary of a run."""

    folder: Path
    settings: Mapping[str, Any]
    """Every value of ``config.yaml`` by its dotted key; lists are values."""
    rows: Rows
    """Metrics by policy update, as :func:`~ada_lightning.run.metrics_file.read_metrics` returns them, without
    evaluations on other held-out prompts than the last ones."""
    summary: Mapping[str, Any]
    """``summary.json``; empty while the run is in progress, or where it was killed."""

    @property
    def name(self) -> str:
        """Name of the run, which may have slashes."""
        return str(self.settings.get("run_name", self.folder.name))

    @property
    def seed(self) -> Any:
        """Seed of the run; None where the settings have none."""
        return self.settings.get("seed")

    @property
    def status(self) -> str:
        """``finished``, ``interrupted``, ``failed``, or ``no summary`` (in progress, or killed)."""
        return str(self.summary.get("status", "no summary"))

    @cached_property
    def heldout_key(self) -> str | None:
        """Column of held-out avg@k; with several k the one measured most often, then the largest k."""
        counts: dict[str, int] = {}
        for row in self.rows:
            for key in row:
                if re.fullmatch(r"eval/avg_at_\d+", key):
                    counts[key] = counts.get(key, 0) + 1
        return max(counts, key=lambda key: (counts[key], int(key.rpartition("_")[2])), default=None)

    @property
    def num_steps(self) -> int:
        """Rollout steps done."""
        return sum("rollout/generated_tokens" in row for row in self.rows)

    def total(self, key: str) -> float:
        """Sum of a metric over the run, of its finite values."""
        return sum(value for row in self.rows if math.isfinite(value := row.get(key, 0.0)))

    def increase(self, key: str) -> float:
        """Return what a running count has counted over the run; a fall means that a resume began anew."""
        values = [row[key] for row in self.rows if math.isfinite(row.get(key, math.nan))]
        return sum(after - before if after >= before else after for before, after in pairwise([0.0, *values]))

    def mean(self, key: str) -> float | None:
        """Mean of a metric over the steps that have a finite value of it."""
        values = [row[key] for row in self.rows if math.isfinite(row.get(key, math.nan))]
        return sum(values) / len(values) if values else None

    @cached_property
    def phase_seconds(self) -> dict[str, float]:
        """Seconds by phase: the summary's, which know what followed the last step; else the sum over the steps."""
        if isinstance(stored := self.summary.get("seconds"), dict):
            return {str(phase): float(seconds) for phase, seconds in stored.items()}
        columns = {key for row in self.rows for key in row if re.fullmatch(r"time/\w+_s", key)}
        return {key.removeprefix("time/").removesuffix("_s"): self.total(key) for key in sorted(columns)}


def load_run(run_dir: RunDir) -> Run:
    """Read a run folder.

    Raises:
        ValueError: one of its files cannot be read; the text names it.
    """
    config, summary = run_dir.path / "config.yaml", run_dir.path / "summary.json"
    try:
        settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    except (yaml.YAMLError, OSError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{config} cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise ValueError(f"{config} holds no settings: expected keys and values, got {type(settings).__name__}")
    try:
        rows = read_metrics(run_dir.metrics_csv)
    except ValueError as error:
        raise ValueError(f"{run_dir.metrics_csv} cannot be read: {error}") from error
    if any("step" not in row for row in rows):
        raise ValueError(f"{run_dir.metrics_csv} has no column `step`: it is not the metrics file of a run")
    try:
        closing = json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else {}
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{summary} cannot be read: {error}") from error
    if not isinstance(closing, dict):
        raise ValueError(f"{summary} holds no summary: expected keys and values, got {type(closing).__name__}")
    since = finite_number(closing.get("heldout_since")) or 0
    rows = [row if row["step"] >= since else _without_evaluation(row) for row in rows]
    return Run(folder=run_dir.path, settings=flat(settings), rows=rows, summary=closing)


def _without_evaluation(row: Mapping[str, float]) -> dict[str, float]:
    return {key: value for key, value in row.items() if not key.startswith("eval/")}


def find_runs(arguments: Sequence[str], *, runs_dir: Path) -> tuple[list[RunDir], list[str]]:
    """Find the run folders that the arguments name.

    Args:
        arguments: run folders, folders that hold runs at any depth (sweeps), glob patterns, or names of runs in
            ``runs_dir``.
        runs_dir: where runs are that are given by name.

    Returns:
        The run folders without repetition, in the order of the arguments, and one message for each thing that is left
        out: a file or folder that has no run, or that looks like the rest of one. A shell that replaces ``runs/*`` by
        all that is there names such things too, like the folder of ``multirun.yaml`` that a sweep leaves.

    Raises:
        ValueError: an argument names nothing that exists, or none of them a run; the text says of each what is missing.
    """
    runs: dict[Path, RunDir] = {}
    left_out: list[str] = []
    errors: list[str] = []
    for argument in arguments:
        folders = _folders(argument, runs_dir)
        for folder in folders:
            try:
                found, incomplete = _runs_at(folder)
            except ValueError as error:
                left_out.append(str(error))
                continue
            runs |= {run.path.resolve(): run for run in found}
            left_out += incomplete
        if not folders and Path(argument).is_file():
            left_out.append(f"{argument} is a file")
        elif not folders:
            errors.append(f"{argument} is not a folder, a pattern that matches one, or a run in {runs_dir}")
    if errors or not runs:
        raise ValueError("\n".join(errors + ([] if runs else left_out)))
    return list(runs.values()), left_out


def _folders(argument: str, runs_dir: Path) -> list[Path]:
    for candidate in (Path(argument), runs_dir / argument):
        if candidate.is_dir():
            return [candidate]
    matches = sorted(glob.glob(argument)) or sorted(glob.glob(str(runs_dir / argument)))
    return [Path(match) for match in matches if Path(match).is_dir()]


def _runs_at(folder: Path) -> tuple[list[RunDir], list[str]]:
    missing = _missing(folder)
    if not missing:
        return [RunDir(folder)], []
    below = list(_below(folder))
    runs = [RunDir(path) for path in below if not _missing(path)]
    if not runs:
        raise ValueError(
            f"{folder} is no run folder: it has no {' and no '.join(missing)}; nor is there a run below it"
            + "".join(f"; {path} has no {' and no '.join(_missing(path))}" for path in below)
        )
    return runs, [f"{path}: it has no {' and no '.join(_missing(path))}" for path in below if _missing(path)]


def _below(folder: Path) -> Iterator[Path]:
    """Folders below that are runs or have some of a run's files; nothing is looked for inside them."""
    for path, names, files in os.walk(folder):
        names.sort()
        if Path(path) != folder and {*NEEDED, "summary.json"} & set(files):
            names.clear()
            yield Path(path)


def _missing(folder: Path) -> list[str]:
    return [name for name in NEEDED if not (folder / name).is_file()]
