"""One run as its folder tells it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from ada_lightning.run.flat import flat
from ada_lightning.run.metrics_file import read_metrics
from ada_lightning.run.run_dir import RunDir

Rows = Sequence[Mapping[str, float]]
NOT_TRAINING = ("start", "preview", "eval")
"""Phases that are no part of training: they stay out of the axis of seconds."""


@dataclass(frozen=True)
class Run:
    """Settings, figures and closing summary of a run."""

    folder: Path
    settings: Mapping[str, Any]
    """Every value of ``config.yaml`` by its dotted key; lists are values."""
    rows: Rows
    """Metrics by policy update, as :func:`~ada_lightning.run.metrics_file.read_metrics` returns them."""
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
        raise ValueError(f"{run_dir.metrics_csv} has no column `step`: it is no metrics file of a run")
    try:
        closing = json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else {}
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{summary} cannot be read: {error}") from error
    if not isinstance(closing, dict):
        raise ValueError(f"{summary} holds no summary: expected keys and values, got {type(closing).__name__}")
    return Run(folder=run_dir.path, settings=flat(settings), rows=rows, summary=closing)
