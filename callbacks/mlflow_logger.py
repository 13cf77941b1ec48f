"""MLflow tracking that cannot slow down, stop or fail a training run."""

from __future__ import annotations

import logging
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, cast

from hydra.utils import to_absolute_path
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import SIGTERMException

from ada_lightning.run_dir import RunDir
from callbacks.mlflow_run import MlflowRun

log = logging.getLogger(__name__)

MAX_FINISH_WAIT_S = 60.0
"""How long the end of a run waits for a server that has not taken everything yet."""
SLOW_FAILURE_S = 5.0
"""A failure that took longer is a server that does not answer, and worth a pause."""
PAUSE_S = 30.0
"""How long nothing is sent after such a failure; what falls in between is in ``metrics.csv`` only."""

Point = tuple[str, float, int, int]
"""Metric name, value, step, milliseconds since 1970."""
Action = Callable[[MlflowRun], object]


class MLflowTracking(Logger):
    """Sends metrics, settings, files and tables to MLflow from a thread of its own.

    Training only queues what it has to say. The thread imports ``mlflow``, opens the store and writes; metrics that
    queued up meanwhile go out in one request. Where MLflow fails, one warning says so, training goes on, and
    ``metrics.csv`` has the figures anyway. Lightning's ``MLFlowLogger`` does each of these inside the training step.

    Args:
        run_dir: folder of the run. It remembers the MLflow run, so that a resume continues the same curves.
        run_name: name of the run in the UI.
        experiment_name: MLflow experiment, made where it does not exist.
        tracking_uri: server, or ``sqlite:///<file>`` relative to the folder the program was started in.
        parent: name of the sweep this run belongs to; its runs are nested under one run of that name.
    """

    def __init__(
        self,
        *,
        run_dir: str | Path,
        run_name: str,
        experiment_name: str,
        tracking_uri: str = "sqlite:///mlflow.db",
        parent: str | None = None,
    ) -> None:
        super().__init__()
        self.run_dir = RunDir(run_dir)
        self.run_name = run_name
        self.experiment_name = experiment_name
        self.tracking_uri = _absolute(tracking_uri)
        self.parent = parent or ""
        self._queue: SimpleQueue[list[Point] | Action | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._run: MlflowRun | None = None
        self._paused_until = 0.0
        self._has_warned = False

    @property
    def name(self) -> str:
        """MLflow experiment."""
        return self.experiment_name

    @property
    def version(self) -> str:
        """MLflow run, empty until it is known."""
        return self.run_dir.mlflow_run_id

    @property
    def how_to_open(self) -> str:
        """What a person does to see the run."""
        if self.tracking_uri.startswith("http"):
            return self.tracking_uri
        return f"mlflow ui --backend-store-uri {self.tracking_uri}"

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Queue the settings: nested ones under dotted names, and the run folder's config files uncut."""
        settings = dict(vars(params)) if isinstance(params, Namespace) else dict(params)
        self._enqueue(lambda run: self._write_params(run, settings))
        for file in sorted(self.run_dir.path.glob("config*.yaml")):
            self.log_file(file)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Queue the metrics of a step."""
        now_ms = int(time.time() * 1000)
        self._enqueue([(name, float(value), step or 0, now_ms) for name, value in metrics.items()])

    @rank_zero_only
    def log_file(self, path: Path) -> None:
        """Queue a file for the top of the run's artifacts. It is read when its turn comes."""
        self._enqueue(lambda run: run.log_file(path))

    @rank_zero_only
    def log_table(self, artifact: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Queue rows of equal columns, shown as a table under ``artifact`` (a ``.json`` name)."""
        self._enqueue(lambda run: run.log_table(artifact, rows))

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """End the run and wait for the queue, within limits.

        Lightning says ``failed`` for Ctrl-C too, but calls this while it handles the exception.
        """
        if self._thread is None:
            return
        if isinstance(sys.exception(), KeyboardInterrupt | SIGTERMException):
            final = "KILLED"
        else:
            final = "FINISHED" if status in ("success", "finished") else "FAILED"
        self._enqueue(lambda run: run.finish(final))
        self._queue.put(None)
        self._thread.join(MAX_FINISH_WAIT_S)
        if self._thread.is_alive():
            self._warn(f"it did not take everything within {MAX_FINISH_WAIT_S:.0f} s")
        self._thread = None

    def _enqueue(self, item: list[Point] | Action) -> None:
        self._queue.put(item)
        if self._thread is None:  # a daemon: a hanging server must not keep a finished program alive
            self._thread = Thread(target=self._work, name="mlflow", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            items = [self._queue.get()]
            while not self._queue.empty():
                items.append(self._queue.get())
            for are_points, group in groupby(items, key=lambda item: isinstance(item, list)):
                if are_points:
                    points = [point for item in group for point in cast(list[Point], item)]
                    self._write(lambda run, points=points: run.log_metrics(points), is_action=False)  # type: ignore[misc]
                    continue
                for action in group:
                    if action is None:
                        return
                    self._write(cast(Action, action))

    def _write(self, action: Action, *, is_action: bool = True) -> None:
        """Try once. During a pause only points are dropped: the end of a run, its settings and files come once."""
        start = time.monotonic()
        if start < self._paused_until and not is_action:
            return
        try:
            action(self._open_run())
        except Exception as error:  # servers, disks and databases fail in every way; training must not
            self._warn(f"{type(error).__name__}: {error}")
            if time.monotonic() - start > SLOW_FAILURE_S:
                self._paused_until = time.monotonic() + PAUSE_S

    def _open_run(self) -> MlflowRun:
        if self._run is None:
            self._run = MlflowRun(
                tracking_uri=self.tracking_uri,
                experiment_name=self.experiment_name,
                run_name=self.run_name,
                run_id=self.run_dir.mlflow_run_id,
                parent=self.parent,
            )
            self.run_dir.write_mlflow_run_id(self._run.run_id)
        return self._run

    def _write_params(self, run: MlflowRun, settings: Mapping[str, Any]) -> None:
        if changed := run.log_params(settings):
            log.warning(
                "settings differ from the start of this run: %s; MLflow keeps the first values as parameters and shows "
                "the new ones as tags resumed.<name>",
                ", ".join(changed),
            )

    def _warn(self, reason: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "MLflow at %s failed (%s). Training goes on without it where it must; every metric is in %s",
                self.tracking_uri,
                reason,
                self.run_dir.metrics_csv,
            )


def _absolute(tracking_uri: str) -> str:
    if not tracking_uri.startswith("sqlite:///"):
        return tracking_uri
    return f"sqlite:///{to_absolute_path(tracking_uri.removeprefix('sqlite:///'))}"
