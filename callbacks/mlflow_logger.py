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
from callbacks.mlflow_sender import MlflowSender
from callbacks.outbox import Outbox

log = logging.getLogger(__name__)

MAX_FINISH_WAIT_S = 60.0
"""How long the end of a run waits for a server that has not taken everything yet."""
FIRST_RETRY_S = 1.0
"""Pause after a failure; the next is twice as long."""
MAX_RETRY_S = 60.0
"""Longest pause."""
LOCK_RETRY_S = 1.0


class MLflowTracking(Logger):
    """Sends metrics, settings, files and tables to MLflow from a thread of its own.

    Training only appends to a queue in the run folder (``mlflow/``, tens of microseconds). The thread imports
    ``mlflow``, opens the store and sends; metrics that queued up meanwhile go out in one request. Where MLflow fails,
    one warning says so and the queue waits on disk: it is delivered when the server answers again, at the end of the
    run, by a resume, or by ``python -m callbacks.mlflow_deliver <run folder>``. Lightning's ``MLFlowLogger`` does each
    of these inside the training step, and stops where the server does.

    Args:
        run_dir: folder of the run. It remembers the MLflow run, so that a resume continues the same curves.
        run_name: name of the run in the UI.
        experiment_name: MLflow experiment, made where it does not exist.
        tracking_uri: server, or ``sqlite:///<file>`` relative to the folder the program was started in. A user and a
            password in it are kept in the environment, and nowhere else.
        parent: name of the sweep this run belongs to; its runs are nested under one run of that name.
        max_outbox_mb: most megabytes that wait for a server; a longer queue takes nothing more, and ``metrics.csv`` has
            the figures.

    Raises:
        ValueError: ``max_outbox_mb`` is not positive.
    """

    def __init__(
        self,
        *,
        run_dir: str | Path,
        run_name: str,
        experiment_name: str,
        tracking_uri: str = "sqlite:///mlflow.db",
        parent: str | None = None,
        max_outbox_mb: float = 256,
    ) -> None:
        super().__init__()
        if max_outbox_mb <= 0:
            raise ValueError(
                f"max_outbox_mb must be positive; got {max_outbox_mb}; to train without MLflow: logger=csv"
            )
        self.run_dir = RunDir(run_dir)
        self.run_name = run_name
        self.experiment_name = experiment_name
        self.tracking_uri = _absolute(take(tracking_uri))
        self.parent = parent or ""
        self._sender = MlflowSender(self.run_dir, max_outbox_mb=max_outbox_mb)
        self._session = os.urandom(8).hex()
        self._thread: Thread | None = None
        self._wake = Event()
        self._is_ending = Event()
        self._first_step: int | None = None
        self._has_backlog = False
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
        """Queue the settings: nested ones under dotted names, and the run folder's config files uncut."""
        settings = dict(vars(params)) if isinstance(params, Namespace) else dict(params)
        self._put(self._sender.figures, {"kind": "params", "params": settings})
        for file in sorted(self.run_dir.path.glob("config*.yaml")):
            self.log_file(file)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Queue the metrics of a step."""
        if self._first_step is None:
            self._first_step = step or 0
        figures = {name: float(value) for name, value in metrics.items()}
        self._put(self._sender.figures, {"kind": "points", "step": step or 0, "metrics": figures})

    @rank_zero_only
    def log_tag(self, name: str, text: str) -> None:
        """Queue a tag of the run; a later one of that name replaces it."""
        self._put(self._sender.figures, {"kind": "tag", "name": name, "text": text})

    @rank_zero_only
    def log_file(self, path: Path, folder: str = "") -> None:
        """Queue a file of the run folder for a folder of the run's artifacts.

        It is read when its turn comes and must stay until then. What lies outside the run folder is not sent.
        """
        self._put(self._sender.files, {"kind": "file", "artifact": folder, "path": self._relative(path)})

    @rank_zero_only
    def log_table(self, artifact: str, path: Path) -> None:
        """Queue JSON lines with equal keys, a file of the run folder, as a table ``artifact`` (a ``.json`` name)."""
        self._put(self._sender.files, {"kind": "table", "artifact": artifact, "path": self._relative(path)})

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
        self._put(self._sender.figures, {"kind": "finish", "status": final})
        if self.parent:
            self._put(self._sender.files, {"kind": "sweep", "artifact": "", "path": ""})
        self._is_ending.set()
        self._wake.set()
        self._thread.join(MAX_FINISH_WAIT_S)
        try:
            if self._thread.is_alive() or not self._sender.is_done():
                log.warning(
                    "MLflow at %s has not taken everything (waiting: %s). Deliver it later: "
                    "python -m callbacks.mlflow_deliver %s",
                    self.tracking_uri,
                    self._sender.waiting(),
                    self.run_dir.path,
                )
        except OSError as error:
            self._warn("disk", f"{type(error).__name__}: {error}")
        self._thread = None

    def _put(self, outbox: Outbox, record: dict[str, Any]) -> None:
        """Append a record with its time. The only part that training waits for."""
        stamp = {"session": self._session, "time_ms": int(time.time() * 1000)}
        try:
            if self._thread is None:
                self._start(stamp)
            if not outbox.append(record | stamp):
                self._warn("full", f"more than max_outbox_mb waits in {outbox.path}; what follows is not kept for it")
        except OSError as error:  # the disk of the run folder
            self._warn("disk", f"{type(error).__name__}: {error}; what cannot be written is not kept for it")
        self._wake.set()

    def _start(self, stamp: dict[str, Any]) -> None:
        self._is_ending.clear()
        # A daemon: a hanging server must not keep a finished program alive.
        self._thread = Thread(target=self._work, name="mlflow", daemon=True)
        try:
            self._sender.write_target(
                {
                    "tracking_uri": self.tracking_uri,
                    "experiment_name": self.experiment_name,
                    "run_name": self.run_name,
                    "parent": self.parent,
                    "source": os.path.abspath(sys.argv[0]),
                }
            )
            self._has_backlog = not self._sender.is_done()
            self._sender.figures.append({"kind": "start"} | stamp)
        finally:
            self._thread.start()

    def _work(self) -> None:
        try:
            if self._prepare():
                self._send_until_the_end()
        except OSError as error:
            self._warn("disk", f"{type(error).__name__}: {error}")
        finally:
            self._sender.unlock()

    def _prepare(self) -> bool:
        """Become the only sender, and forget what an earlier session could not send and this one repeats."""
        while not self._sender.lock():
            self._warn("lock", "another process delivers this run")
            if self._is_ending.wait(LOCK_RETRY_S):
                return self._sender.lock()
        if self._has_backlog:  # which of it is repeated, the first step tells
            while self._first_step is None and not self._is_ending.is_set():
                self._wake.wait()
                self._wake.clear()
            if self._first_step is not None:
                self._sender.drop_repeated(session=self._session, first_step=self._first_step)
        return True

    def _send_until_the_end(self) -> None:
        pause = FIRST_RETRY_S
        while True:
            is_ending = self._is_ending.is_set()  # before sending: everything has been queued then
            self._wake.clear()
            failure = self._sender.send()
            if is_ending:
                return
            if failure is None:
                pause = FIRST_RETRY_S
                self._wake.wait()
            else:
                self._warn("server", f"{type(failure).__name__}: {failure}")
                self._is_ending.wait(pause)
                pause = min(2 * pause, MAX_RETRY_S)

    def _relative(self, path: Path) -> str:
        """Path inside the run folder, which may be moved, or else absolute."""
        resolved, folder = path.resolve(), self.run_dir.path.resolve()
        return str(resolved.relative_to(folder) if resolved.is_relative_to(folder) else resolved)

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
