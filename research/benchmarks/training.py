"""Run real training jobs from a benchmark: ``train.py``'s own objects, a few steps, a stopwatch beside them."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.drive import composed

QUIET = (
    "~callbacks.preview",
    "callbacks.evaluation.every_n_steps=0",
    "callbacks.evaluation.num_prompts=1",
    "callbacks.evaluation.num_samples=1",
    "callbacks.checkpoint.every_n_steps=0",
)
"""Leave out what happens every tenth step or once; what happens in every step stays."""


class Job:
    """One training job that can be asked for its steps' figures."""

    def __init__(self, overrides: Sequence[str], folder: Path) -> None:
        from ada_lightning.config.check import check_config
        from ada_lightning.programs.training_run import Run
        from ada_lightning.run.run_dir import RunDir

        paths = (f"run_dir={folder / 'run'}", f"logger.mlflow.tracking_uri=sqlite:///{folder / 'mlflow.db'}")
        cfg = composed("train", [*QUIET, *paths, *overrides])
        check_config(cfg)
        run_dir = RunDir(Path(cfg.run_dir))
        run_dir.claim(resume=False)
        self.metrics_csv = run_dir.metrics_csv
        self.run = Run(cfg, run_dir)

    def fit(self) -> list[dict[str, float]]:
        """Train; return each step's row of ``metrics.csv``, with ``step_s``, from one finished update to the next."""
        from lightning.pytorch import Callback

        from callbacks.metrics_csv import read_metrics

        class Stopwatch(Callback):
            """Seconds from one finished update to the next: everything between them, logging included."""

            def __init__(self) -> None:
                self.seconds: list[float] = []

            def on_train_start(self, trainer: Any, pl_module: Any) -> None:
                self._started = time.perf_counter()

            def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
                now = time.perf_counter()
                self.seconds.append(now - self._started)
                self._started = now

        stopwatch = Stopwatch()
        self.run.callbacks.append(stopwatch)
        self.run.fit()
        rows = [row for row in read_metrics(self.metrics_csv) if "train/loss" in row]
        return [row | {"step_s": seconds} for row, seconds in zip(rows, stopwatch.seconds, strict=True)]


def train_steps(*overrides: str) -> list[dict[str, float]]:
    """Train in a folder of its own that is removed afterwards; what the run prints goes to standard error."""
    with tempfile.TemporaryDirectory(prefix="ada_lightning-") as folder:
        standard_output = os.dup(1)
        os.dup2(2, 1)
        try:
            return Job(overrides, Path(folder)).fit()
        finally:
            os.dup2(standard_output, 1)
            os.close(standard_output)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time in which one part, and nothing inside it that is recorded too, was at work."""

    part: str
    start: float
    end: float


class Recorder:
    """Records which part is at work. What is not wrapped counts as ``rest``."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self.samples: list[tuple[float, float]] = []
        """(time, value) of whatever :meth:`sample` was given."""
        self._stack = ["rest"]
        self._since = time.perf_counter()

    def wrap(self, owner: Any, name: str, part: str) -> None:
        """Count the seconds of every call of ``owner.name`` as ``part``, less those of wrapped functions it calls."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._switch()
            self._stack.append(part)
            try:
                return function(*args, **kwargs)
            finally:
                self._switch()
                self._stack.pop()

        setattr(owner, name, wrapped)

    def sample(self, value: float) -> None:
        """Remember a value that changes with time."""
        self.samples.append((time.perf_counter(), value))

    def seconds(self, start: float, end: float) -> Counter[str]:
        """Seconds by part between two times."""
        self._switch()
        found: Counter[str] = Counter()
        for stretch in self.stretches:
            overlap = min(end, stretch.end) - max(start, stretch.start)
            if overlap > 0:
                found[stretch.part] += overlap
        return found

    def _switch(self) -> None:
        now = time.perf_counter()
        self.stretches.append(Stretch(self._stack[-1], self._since, now))
        self._since = now
