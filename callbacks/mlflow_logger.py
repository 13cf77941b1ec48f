"""MLflow tracking that cannot slow down, stop or fail a training run, and loses nothing to a server that is down."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

from hydra.utils import to_absolute_path
from lightning.pytorch.utilities.exceptions import SIGTERMException

from ada_lightning.run.credentials import hidden, take
from ada_lightning.run.files import append_whole, write_text
from ada_lightning.run.metrics_file import TIME_COLUMN, read_cells_since
from ada_lightning.run.run_dir import RunDir
from ada_lightning.run.run_lock import RunLock

from .mlflow_run import Cells, MlflowRun, is_refused
from .response_log import shown_slots
from .tracker import Tracker, file_version

log = logging.getLogger(__name__)

MAX_FINISH_WAIT_S = 60.0
"""How long the end of a run waits for a server that has not taken everything yet."""
FIRST_RETRY_S = 1.0
"""Pause after a failure; the next is twice as long."""
MAX_RETRY_S = 60.0
"""Longest pause."""
LOCK_RETRY_S = 1.0
ARTIFACTS = (
    "config*.yaml", "data_report.json", "summary.json", "*.png", "samples.html", "responses/*/*.parquet",
    "results.json", "results.md",
)  # fmt: skip
"""Files of a run folder, or of an evaluation's, that MLflow gets when they are new or have changed."""
AT_THE_END = ("prompts.csv",)
"""Files that grow with every step."""
ROWS_AT_ONCE = 100
TABLE_PROMPTS = 4
"""Prompts in a table of sampled responses."""

Fact = tuple[str, Any, Callable[[MlflowRun], object]]
"""Name, version, and what sends it: settings, a tag, the status, a file."""


class MLflowTracking(Tracker):
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

    tool, option, package = "MLflow", "mlflow", "mlflow"

    def __init__(
        self,
        *,
        run_dir: str | Path,
        run_name: str,
        experiment_name: str,
        tracking_uri: str = "sqlite:///mlflow.db",
        parent: str | None = None,
    ) -> None:
        super().__init__(run_dir=run_dir, run_name=run_name)
        self.experiment_name, self.parent = experiment_name, parent or ""
        self.tracking_uri = take(tracking_uri)
        if self.tracking_uri.startswith("sqlite:///"):
            self.tracking_uri = f"sqlite:///{to_absolute_path(self.tracking_uri.removeprefix('sqlite:///'))}"
        self._delivery = Delivery(self.run_dir)
        self._thread = Thread()
        self._wake, self._is_ending = Event(), Event()
        self._has_metrics = False

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
        is_server = self.tracking_uri.startswith("http")
        return self.tracking_uri if is_server else f"mlflow ui --backend-store-uri {self.tracking_uri}"

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Start the thread: the run folder's config files hold every setting."""
        self._delivery.write_target(
            tracking_uri=self.tracking_uri,
            experiment_name=self.experiment_name,
            run_name=self.run_name,
            parent=self.parent,
            source=os.path.abspath(sys.argv[0]),
            status="RUNNING",
            end_ms=None,
        )
        self._is_ending.clear()
        # A daemon: a hanging server must not keep a finished program alive.
        self._thread = Thread(target=self._work, name="mlflow", daemon=True)
        self._thread.start()

    def send(self, metrics: Mapping[str, float], step: int) -> None:
        """Have the metrics of the step sent, which the run folder's ``metrics.csv`` holds by now."""
        if not self._has_metrics and not self.run_dir.metrics_csv.exists():
            self.warn("there is no metrics.csv to send figures from; keep logger.csv, before logger.mlflow")
        self._has_metrics = True
        self._wake.set()

    def end(self, status: str) -> None:
        """End the run and wait until everything is sent, within limits.

        Lightning says ``failed`` for Ctrl-C too, but calls this while it handles the exception.
        """
        final = "FINISHED" if status in ("success", "finished") else "FAILED"
        if isinstance(sys.exception(), KeyboardInterrupt | SIGTERMException):
            final = "KILLED"
        try:
            self._delivery.write_target(status=final, end_ms=int(time.time() * 1000))
        finally:
            self._is_ending.set()
            self._wake.set()
        self._thread.join(MAX_FINISH_WAIT_S)
        if self._thread.is_alive() or self._delivery.waiting():
            log.warning(
                "MLflow at %s has not taken everything. Deliver it later: python -m "
                "ada_lightning.callbacks.mlflow_deliver %s",
                self.tracking_uri,
                self.run_dir.path,
            )

    def _work(self) -> None:
        try:
            while not self._delivery.is_alone():
                self.warn("another process delivers this run")
                if self._is_ending.wait(LOCK_RETRY_S) and not self._delivery.is_alone():
                    return
            self._send_until_the_end()
        except OSError as error:
            self.warn(f"{type(error).__name__}: {error}")
        finally:
            self._delivery.lock.release()

    def _send_until_the_end(self) -> None:
        pause = FIRST_RETRY_S
        while True:
            self._wake.clear()
            is_ending = self._is_ending.is_set()  # before sending: everything is in the folder then
            failure = self._delivery.send(with_metrics=self._has_metrics or is_ending, is_final=is_ending)
            if failure is not None:
                self.warn(hidden(f"at {self.tracking_uri}, {type(failure).__name__}: {failure}"))
            if is_ending:
                return
            if failure is None:
                pause = FIRST_RETRY_S
                self._wake.wait()
            else:
                self._is_ending.wait(pause)
                pause = min(2 * pause, MAX_RETRY_S)


class Delivery:
    """Compares a run folder with ``mlflow/delivered.jsonl`` in it, and sends what is missing there.

    ``metrics.csv`` is the queue: a cell that was delivered is noted with its step, and not sent again while it has that
    value. What was sent but not yet noted when a process was killed is sent once more, with the time that its row has
    in the file: MLflow stores an equal point once. Files, parameters, tags and status replace themselves.

    Args:
        run_dir: folder of the run.
    """

    def __init__(self, run_dir: RunDir) -> None:
        self.run_dir = run_dir
        self.tracking_uri = ""
        """Where the store is now; empty for where the folder says that it is."""
        folder = run_dir.path / "mlflow"
        self.lock = RunLock(folder)
        self._target_file, self._delivered_file = folder / "target.json", folder / "delivered.jsonl"
        self._facts: dict[str, Any] = {}
        self._rows: dict[int, Cells] = {}
        self._since: int | None = None
        self._run: MlflowRun | None = None

    def write_target(self, **target: Any) -> None:
        """Remember where to send to and how the run stands; what an earlier session wrote stays unless it is given."""
        new = {"key": os.urandom(16).hex(), "start_ms": int(time.time() * 1000)}  # the key: no run is made twice
        write_text(self._target_file, json.dumps(new | self.read_target() | target, indent=2) + "\n")

    def read_target(self) -> dict[str, Any]:
        """Store, experiment, name and status of the run; empty where the run has told MLflow nothing."""
        with suppress(FileNotFoundError):
            target: dict[str, Any] = json.loads(self._target_file.read_text(encoding="utf-8"))
            return target
        return {}

    def is_alone(self) -> bool:
        """Become the only sender of this run until ``lock.release()``; False where another process is."""
        self.lock.path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(ValueError):
            self.lock.acquire()
        return self.lock.is_held

    def waiting(self) -> str:
        """What MLflow does not have yet, for a message; an empty text where it has everything. Reads all of it."""
        self._load()
        rows = sum(bool(self._news(row)) for row in read_cells_since(self.run_dir.metrics_csv, 0))
        target = self.read_target()
        facts = self._facts_of(target, is_final=True) if target else ()
        names = [name for name, version, _ in facts if self._facts.get(name) != version]
        parts = [f"{rows} steps of metrics"] * bool(rows) + names[:5] + [f"{len(names) - 5} more"] * (len(names) > 5)
        return ", ".join(parts)

    def send(self, *, with_metrics: bool = True, is_final: bool = False) -> Exception | None:
        """Send what is new until all of it is there or something fails; what was not sent is so the next time.

        What MLflow refuses for good, as it does a name of a wrong form, is left out with a warning instead of holding
        up what follows. A server often takes figures and not files (its artifact folder is full), so files come last.

        Args:
            with_metrics: False while ``metrics.csv`` may still have steps that this session is about to repeat.
            is_final: compare everything once more, and send files that grow with every step.

        Returns:
            What failed.
        """
        try:
            if self._since is None or is_final:
                self._load()
            target = self.read_target()  # first: what was logged before the status changed is sent before it
            if self._run is None:
                uri = self.tracking_uri or target["tracking_uri"]
                known = self.run_dir.mlflow_run_id
                run = MlflowRun(tracking_uri=uri, run_id=known, target=target)
                if known and run.run_id != known:
                    log.warning(
                        "MLflow at %s does not have run %s of this folder; it gets all of it", hidden(uri), known
                    )
                    self._forget()
                self.run_dir.write_mlflow_run_id(run.run_id)
                self._run = run
            if with_metrics:
                self._send_metrics(self._run)
            for name, version, write in self._facts_of(target, is_final=is_final):
                if self._facts.get(name) != version:
                    _unless_refused(name, partial(write, self._run))
                    append_whole(self._delivered_file, (json.dumps({"fact": name, "is": version}) + "\n").encode())
                    self._facts[name] = version
        except Exception as error:  # servers, disks and databases fail in every way; training must not
            return error
        return None

    def _facts_of(self, target: Mapping[str, Any], *, is_final: bool) -> Iterator[Fact]:
        """All that MLflow gets in addition to figures, in the order in which it is sent."""
        config = self.run_dir.newest_config()
        if config.exists():
            yield "settings", config.name, lambda run: run.log_params(self.run_dir.stored_config())
        with suppress(OSError, ValueError):
            alarms = json.loads((self.run_dir.path / "alarms.json").read_text(encoding="utf-8"))
            for name in alarms:
                yield f"alarm.{name}", alarms[name], partial(MlflowRun.set_tag, name=f"alarm.{name}", text=alarms[name])
        status, end_ms = target["status"], target["end_ms"]
        yield "status", [status, end_ms], lambda run: run.set_status(status, end_ms)
        folder = self.run_dir.path.resolve()
        for path in (path for pattern in ARTIFACTS + AT_THE_END * is_final for path in sorted(folder.glob(pattern))):
            if path.name.startswith(".") or not path.is_file():
                continue
            if path.resolve().is_relative_to(folder):
                yield str(path.relative_to(folder)), file_version(path), partial(_send_file, path, folder)
            else:  # a folder may be anybody's, and link to any file
                log.warning("%s is outside the run folder %s and is not sent", path, folder)
        if target["parent"] and status != "RUNNING":
            yield "sweep", end_ms, MlflowRun.update_sweep_table

    def _send_metrics(self, run: MlflowRun) -> None:
        """Send cells that are new, from the last two steps that were looked at on: they may have got more of them."""
        rows = read_cells_since(self.run_dir.metrics_csv, self._since or 0)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            new = [(row, cells) for row in rows[start : start + ROWS_AT_ONCE] if (cells := self._news(row))]
            if not new:
                continue
            try:
                run.log_metrics(new)
            except Exception as error:
                if not is_refused(error):
                    raise
                for row, cells in new:
                    _unless_refused(f"metrics of step {row['step']}", partial(run.log_metrics, [(row, cells)]))
            lines = [json.dumps({"step": int(row["step"]), "cells": cells}) + "\n" for row, cells in new]
            append_whole(self._delivered_file, "".join(lines).encode())
            for row, cells in new:
                self._rows.setdefault(int(row["step"]), {}).update(cells)
        if rows:  # the last but one: who logs after the next step has begun logs of this one
            self._since = int(rows[max(len(rows) - 2, 0)]["step"])
        self._rows = {step: cells for step, cells in self._rows.items() if step >= (self._since or 0)}

    def _news(self, row: Cells) -> Cells:
        """Cells of a row that MLflow does not have."""
        known = {"step": row["step"], TIME_COLUMN: row[TIME_COLUMN]} | self._rows.get(int(row["step"]), {})
        return {name: cell for name, cell in row.items() if cell and known.get(name) != cell}

    def _forget(self) -> None:
        """Deliver everything anew: the store that had it is not the one of now."""
        write_text(self._delivered_file, "")
        self._load()

    def _load(self) -> None:
        """Read what was delivered; a line that a kill cut off is none, and what it said is sent once more."""
        self._facts, self._rows, self._since = {}, {}, 0
        content = self._delivered_file.read_bytes() if self._delivered_file.exists() else b""
        if not content.endswith(b"\n") and content:
            append_whole(self._delivered_file, b"\n")
        for line in content.splitlines():
            with suppress(ValueError):
                record = json.loads(line)
                if "step" in record:
                    self._rows.setdefault(record["step"], {}).update(record["cells"])
                else:
                    self._facts[record["fact"]] = record["is"]


def _unless_refused(what: str, write: Callable[[], object]) -> None:
    try:
        write()
    except Exception as error:
        if not is_refused(error):
            raise
        log.warning("MLflow refused %s for good, so it is left out: %s", what, error)


def _send_file(path: Path, folder: Path, run: MlflowRun) -> None:
    """Upload a file under its path in the run folder; sampled responses as a table, too, which the UI shows."""
    place = path.relative_to(folder)
    run.client.log_artifact(run.run_id, str(path), str(place.parent).removeprefix(".") or None)
    if path.suffix == ".parquet" and path.parent.name == "train":
        try:
            import pandas as pd

            frame = pd.read_parquet(path)
            shown = frame[frame["slot"].isin(shown_slots(frame, TABLE_PROMPTS))]
            rows = json.loads(shown.to_json(orient="records"))
        except (OSError, ValueError, KeyError) as error:  # a folder may be anybody's; files behind it must not wait
            log.warning("%s holds no sampled responses, so MLflow shows no table of it: %s", path, error)
            return
        run.log_table(str(place.with_suffix(".json")), rows)
