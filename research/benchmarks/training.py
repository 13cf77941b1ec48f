"""Run real training jobs from a benchmark: ``train.py``'s own objects, a few steps, a stopwatch beside them."""

from __future__ import annotations

import functools
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
    """One training job that can be asked for its steps' figures; without a folder, all of it is in the overrides."""

    def __init__(self, overrides: Sequence[str], folder: Path | None = None) -> None:
        from ada_lightning.config.check import check_config
        from ada_lightning.parallel.hardware import choose_hardware
        from ada_lightning.programs.training_run import Run
        from ada_lightning.run.run_dir import RunDir

        if folder is not None:
            paths = (f"run_dir={folder / 'run'}", f"logger.mlflow.tracking_uri=sqlite:///{folder / 'mlflow.db'}")
            overrides = [*QUIET, *paths, *overrides]
        cfg = composed("train", overrides)
        choose_hardware(cfg.trainer)
        check_config(cfg)
        run_dir = RunDir(Path(cfg.run_dir))
        run_dir.claim(resume=False)
        self.metrics_csv = run_dir.metrics_csv
        self.run = Run(cfg, run_dir)

    def fit(self) -> list[dict[str, float]]:
        """Train; return each step's row of ``metrics.csv`` with ``step_s`` and ``cpu_s``.

        They go from one finished update to the next: everything between them, logging included.
        """
        from lightning.pytorch import Callback

        from ada_lightning.callbacks.metrics_csv import read_metrics

        class Stopwatch(Callback):
            """Takes the time after each update."""

            def __init__(self) -> None:
                self.steps: list[dict[str, float]] = []

            def on_train_start(self, trainer: Any, pl_module: Any) -> None:
                self._started, self._cpu_started = time.perf_counter(), time.process_time()

            def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
                now, cpu_now = time.perf_counter(), time.process_time()
                self.steps.append({"step_s": now - self._started, "cpu_s": cpu_now - self._cpu_started})
                self._started, self._cpu_started = now, cpu_now

        stopwatch = Stopwatch()
        self.run.callbacks.append(stopwatch)
        self.run.fit()
        rows = [row for row in read_metrics(self.metrics_csv) if "train/loss" in row]
        return [row | timed for row, timed in zip(rows, stopwatch.steps, strict=True)]


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
