"""MLflow tracking that cannot slow down, stop or fail a training run, and loses nothing to a server that is down."""

from __future__ import annotations

import logging
import os
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Any

from hydra.utils import to_absolute_path
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import SIGTERMException

from ada_lightning.run.credentials import hidden, take
from ada_lightning.run.run_dir import RunDir

from .mlflow_upload import MlflowUpload

log = logging.getLogger(__name__)

MAX_FINISH_WAIT_S = 60.0
"""How long the end of a run waits for a server that has not taken everything yet."""
FIRST_RETRY_S = 1.0
"""Pause after a failure; the next is twice as long."""
MAX_RETRY_S = 60.0
"""Longest pause."""
LOCK_RETRY_S = 1.0


class MLflowTracking(Logger):
    """Uploads the run folder to MLflow from a thread of its own, whenever the run logs something and at its end.

    Training only wakes the thread: figures are those that :class:`.metrics_csv.MetricsCsv` has put into
    ``metrics.csv``, settings and artifacts the files of the folder. Where MLflow fails, one warning says so, and what
    is missing there is sent when the server answers again, at the end of the run, by a resume, or by ``python -m
    ada_lightning.callbacks.mlflow_deliver <run folder>``. Lightning's ``MLFlowLogger`` does each of these inside the
    training step, and stops where the server does.

    Args:
        run_dir: folder of the run. It remembers the MLflow run, so that a resume continues the same curves.
        run_name: name of the run in the UI.
        experiment_name: MLflow experiment, made where it does not exist.
        tracking_uri: server, or ``sqlite:///<file>`` relative to the folder the program was started in. A user and a
            password in it are kept in the environment, and nowhere else.
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
        self.tracking_uri = _absolute(take(tracking_uri))
        self.parent = parent or ""
        self._upload = MlflowUpload(self.run_dir)
        self._thread: Thread | None = None
        self._wake = Event()
        self._is_ending = Event()
        self._has_metrics = False
        self._warned: set[str] = set()

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
        """Begin: the run folder's config files hold every setting."""
        self._begin()

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Have the metrics of the step sent, which the run folder's ``metrics.csv`` holds by now."""
        if not self._has_metrics and not self.run_dir.metrics_csv.exists():
            self._warn("csv", "there is no metrics.csv to send figures from; keep logger.csv, before logger.mlflow")
        self._has_metrics = True
        self._begin()
        self._wake.set()

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """End the run and wait until everything is sent, within limits.

        Lightning says ``failed`` for Ctrl-C too, but calls this while it handles the exception.
        """
        if self._thread is None:
            return
        if isinstance(sys.exception(), KeyboardInterrupt | SIGTERMException):
            final = "KILLED"
        else:
            final = "FINISHED" if status in ("success", "finished") else "FAILED"
        try:
            self._upload.write_target(status=final, end_ms=int(time.time() * 1000))
            self._is_ending.set()
            self._wake.set()
            self._thread.join(MAX_FINISH_WAIT_S)
            if self._thread.is_alive() or self._upload.waiting():
                log.warning(
                    "MLflow at %s has not taken everything. Deliver it later: python -m "
                    "ada_lightning.callbacks.mlflow_deliver %s",
                    self.tracking_uri,
                    self.run_dir.path,
                )
        except (OSError, KeyError) as error:
            self._is_ending.set()
            self._wake.set()
            self._warn("disk", f"{type(error).__name__}: {error}")
        self._thread = None

    def _begin(self) -> None:
        """Start the thread, once."""
        if self._thread is not None:
            return
        self._is_ending.clear()
        # A daemon: a hanging server must not keep a finished program alive.
        self._thread = Thread(target=self._work, name="mlflow", daemon=True)
        try:
            self._upload.write_target(
                tracking_uri=self.tracking_uri,
                experiment_name=self.experiment_name,
                run_name=self.run_name,
                parent=self.parent,
                source=os.path.abspath(sys.argv[0]),
                status="RUNNING",
                end_ms=None,
            )
        except OSError as error:  # the disk of the run folder
            self._warn("disk", f"{type(error).__name__}: {error}")
        finally:
            self._thread.start()

    def _work(self) -> None:
        try:
            while not self._upload.lock():
                self._warn("lock", "another process delivers this run")
                if self._is_ending.wait(LOCK_RETRY_S) and not self._upload.lock():
                    return
            self._send_until_the_end()
        except OSError as error:
            self._warn("disk", f"{type(error).__name__}: {error}")
        finally:
            self._upload.unlock()

    def _send_until_the_end(self) -> None:
        pause = FIRST_RETRY_S
        while True:
            self._wake.clear()
            is_ending = self._is_ending.is_set()  # before sending: everything is in the folder then
            failure = self._upload.send(with_metrics=self._has_metrics or is_ending, is_final=is_ending)
            if failure is not None:
                self._warn("server", f"{type(failure).__name__}: {failure}")
            if is_ending:
                return
            if failure is None:
                pause = FIRST_RETRY_S
                self._wake.wait()
            else:
                self._is_ending.wait(pause)
                pause = min(2 * pause, MAX_RETRY_S)

    def _warn(self, kind: str, reason: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            log.warning(
                "MLflow at %s failed (%s). Training goes on; every metric is in %s, and what waits is delivered later",
                self.tracking_uri,
                hidden(reason),
                self.run_dir.metrics_csv,
            )


def _absolute(tracking_uri: str) -> str:
    if not tracking_uri.startswith("sqlite:///"):
        return tracking_uri
    return f"sqlite:///{to_absolute_path(tracking_uri.removeprefix('sqlite:///'))}"
