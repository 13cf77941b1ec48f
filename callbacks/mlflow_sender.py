"""Takes what a run has to tell MLflow from its folder and delivers it, during the run or any time after."""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ada_lightning.run.run_dir import RunDir
from callbacks.mlflow_run import MlflowRun, Point, is_refused
from callbacks.outbox import Outbox, Record

log = logging.getLogger(__name__)

FOLDER = "mlflow"
"""Name in the run folder."""
MAX_OUTBOX_MB = 256


class MlflowSender:
    """The waiting room of a run, ``mlflow/`` in its folder, and its way out.

    Figures and files wait in two queues, because a server often takes the one and not the other (its artifact folder
    is full or not writable). Sending is repeatable: points carry the time at which they were logged, and MLflow stores
    an equal point once; files, tables, parameters and status replace themselves.

    Args:
        run_dir: folder of the run.
        max_outbox_mb: most megabytes that wait in either queue.
    """

    def __init__(self, run_dir: RunDir, *, max_outbox_mb: float = MAX_OUTBOX_MB) -> None:
        self.run_dir = run_dir
        self.folder = run_dir.path / FOLDER
        self.figures = Outbox(self.folder / "figures.jsonl", max_bytes=int(max_outbox_mb * 1e6))
        self.files = Outbox(self.folder / "files.jsonl", max_bytes=int(max_outbox_mb * 1e6))
        self.tracking_uri_override = ""
        self._target_file = self.folder / "target.json"
        self._run: MlflowRun | None = None
        self._lock_file: int | None = None

    def write_target(self, target: Mapping[str, str]) -> None:
        """Remember where to send to; keeps the ``key`` of an earlier session, so that a run is never made twice."""
        target = {**target, "key": self.read_target().get("key") or os.urandom(16).hex()}
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self._target_file.with_name(".target.json.tmp")
        temporary.write_text(json.dumps(target, indent=2) + "\n", encoding="utf-8")
        temporary.replace(self._target_file)

    def read_target(self) -> dict[str, str]:
        """Store, experiment and name of the run; empty where the run has told MLflow nothing."""
        if not self._target_file.exists():
            return {}
        target: dict[str, str] = json.loads(self._target_file.read_text(encoding="utf-8"))
        return target

    def lock(self) -> bool:
        """Become the only sender of this run until the process ends; False where another process is."""
        if self._lock_file is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                return False
            except OSError:  # a file system without locks
                log.debug("no file locks in %s", self.folder)
            self._lock_file = file
        return True

    def unlock(self) -> None:
        """Let another process send."""
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def is_done(self) -> bool:
        """Whether nothing waits."""
        return self.figures.is_empty() and self.files.is_empty()

    def waiting(self) -> str:
        """What waits, for a message."""
        return f"{self.figures.count()} records of figures and {self.files.count()} of files"

    def drop_repeated(self, *, session: str, first_step: int) -> None:
        """Forget undelivered points of other sessions behind ``first_step``: this session repeats those steps."""

        def wanted(record: Record) -> Record | None:
            is_lost = record["kind"] == "points" and record["session"] != session and record["step"] > first_step
            return None if is_lost else record

        self.figures.keep(wanted)

    def send(self) -> Exception | None:
        """Deliver what waits, oldest first, until it is done or something fails.

        Files are not tried where figures fail: the server is the same. What MLflow refuses for good, as it does a name
        of a wrong form, is left out with a warning instead of holding up what follows.

        Returns:
            What failed; it and everything behind it keeps waiting.
        """
        for outbox, write in ((self.figures, self._write_figures), (self.files, self._write_files)):
            try:
                while not outbox.is_empty():
                    records, end = outbox.read()
                    if records:
                        write(records)
                    outbox.commit(end)
            except Exception as error:  # servers, disks and databases fail in every way; training must not
                return error
        return None

    def close_killed_run(self) -> bool:
        """Mark a run that MLflow takes for running as killed, now that nobody runs it; whether it was necessary."""
        run = self._open_run(0)
        if run.status() != "RUNNING":
            return False
        file = self.run_dir.metrics_csv
        run.finish("KILLED", int(file.stat().st_mtime * 1000) if file.exists() else None)
        return True

    def _write_figures(self, records: list[Record]) -> None:
        run = self._open_run(records[0]["time_ms"])
        # All points first: what a session repeats of the one before it replaces that only within one request.
        self._write_points(run, [record for record in records if record["kind"] == "points"])
        for record in records:
            self._unless_refused(record["kind"], partial(self._write_other, run, record))

    def _write_points(self, run: MlflowRun, records: list[Record]) -> None:
        if not records:
            return
        try:
            run.log_metrics(_points(records))
        except Exception as error:
            if not is_refused(error):
                raise
            for record in records:
                write = partial(run.log_metrics, _points([record]))
                self._unless_refused(f"metrics of step {record['step']}", write)

    def _write_other(self, run: MlflowRun, record: Record) -> None:
        if record["kind"] == "start":
            run.resume()
        elif record["kind"] == "params":
            if changed := run.log_params(record["params"]):
                log.warning(
                    "settings differ from the start of this run: %s; MLflow keeps the first values as parameters and "
                    "shows the new ones as tags resumed.<name>",
                    ", ".join(changed),
                )
        elif record["kind"] == "tag":
            run.log_tag(record["name"], record["text"])
        elif record["kind"] == "finish":
            run.finish(record["status"], record["time_ms"])

    def _write_files(self, records: list[Record]) -> None:
        newest = {(record["artifact"], record["path"]): record for record in records}
        run = self._open_run(records[0]["time_ms"])
        for record in newest.values():
            self._unless_refused(record["path"] or "the table of the sweep", partial(self._write_file, run, record))

    def _write_file(self, run: MlflowRun, record: Record) -> None:
        if record["kind"] == "sweep":
            run.update_sweep_table()
            return
        folder = self.run_dir.path.resolve()
        path = (folder / record["path"]).resolve()  # a queue may be anybody's, and name any file of this machine
        if not path.is_relative_to(folder):
            log.warning("%s lies outside the run folder %s and is not sent", path, folder)
        elif not path.is_file():
            log.warning("%s is gone before MLflow could take it", path)
        elif record["kind"] == "table":
            if rows := _rows(path):
                run.log_table(record["artifact"], rows)
        else:
            run.log_file(path, record["artifact"])

    def _unless_refused(self, what: str, write: Callable[[], object]) -> None:
        try:
            write()
        except Exception as error:
            if not is_refused(error):
                raise
            log.warning("MLflow refused %s for good, so it is left out: %s", what, error)

    def _open_run(self, start_ms: int) -> MlflowRun:
        if self._run is None:
            target = self.read_target()
            run = MlflowRun(
                tracking_uri=self.tracking_uri_override or target["tracking_uri"],
                experiment_name=target["experiment_name"],
                run_name=target["run_name"],
                run_id=self.run_dir.mlflow_run_id,
                parent=target["parent"],
                key=target["key"],
                source=target["source"],
                start_ms=start_ms,
            )
            self.run_dir.write_mlflow_run_id(run.run_id)
            self._run = run
        return self._run


def _points(records: Iterable[Record]) -> list[Point]:
    """One point for each name and step: what was logged last, as ``metrics.csv`` has it."""
    points: dict[tuple[str, int], Point] = {}
    for record in records:
        for name, value in record["metrics"].items():
            points[name, record["step"]] = (name, value, record["step"], record["time_ms"])
    return list(points.values())


def _rows(path: Path) -> list[dict[str, Any]]:
    """Read a table; nothing, with a warning, where it is none: it would hold up every file behind it."""
    try:
        # Bytes: JSON text may hold U+2028 and others at which splitlines() of a text splits.
        return [json.loads(line) for line in path.read_bytes().splitlines()]
    except ValueError as error:
        log.warning("%s is no table of JSON lines, so MLflow does not get it: %s", path, error)
        return []
