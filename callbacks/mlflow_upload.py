"""Uploads a run's folder to MLflow, during the run or any time after: what the folder says and MLflow does not have."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ada_lightning.run.files import append_whole, write_text
from ada_lightning.run.metrics_file import TIME_COLUMN, read_cells_since
from ada_lightning.run.run_dir import RunDir
from ada_lightning.run.run_lock import RunLock

from .mlflow_run import MlflowRun, Point, is_refused

log = logging.getLogger(__name__)

FOLDER = "mlflow"
"""Name in the run folder."""
ALARMS = "alarms.json"
"""File of a run folder with the state of each alarm; MLflow shows them as tags ``alarm.<name>``."""
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

Cells = dict[str, str]


class MlflowUpload:
    """Compares a run folder with ``mlflow/delivered.jsonl`` in it, and sends what is missing there.

    ``metrics.csv`` is the queue: a cell that was delivered is noted with its step, and not sent again while it has that
    value. What was sent but not yet noted when a process was killed is sent once more, with the time that its row has
    in the file: MLflow stores an equal point once. Files, parameters, tags and status replace themselves.

    Args:
        run_dir: folder of the run.
    """

    def __init__(self, run_dir: RunDir) -> None:
        self.run_dir = run_dir
        self.folder = run_dir.path / FOLDER
        self.tracking_uri_override = ""
        self._target_file = self.folder / "target.json"
        self._delivered_file = self.folder / "delivered.jsonl"
        self._facts: dict[str, Any] = {}
        self._rows: dict[int, Cells] = {}
        self._since: int | None = None
        self._run: MlflowRun | None = None
        self._lock = RunLock(self.folder)

    def write_target(self, **target: Any) -> None:
        """Remember where to send to and how the run stands; what an earlier session wrote stays unless it is given."""
        self.folder.mkdir(parents=True, exist_ok=True)
        new = {"key": os.urandom(16).hex(), "start_ms": int(time.time() * 1000)}  # the key: no run is made twice
        write_text(self._target_file, json.dumps(new | self.read_target() | target, indent=2) + "\n")

    def read_target(self) -> dict[str, Any]:
        """Store, experiment, name and status of the run; empty where the run has told MLflow nothing."""
        if not self._target_file.exists():
            return {}
        target: dict[str, Any] = json.loads(self._target_file.read_text(encoding="utf-8"))
        return target

    def lock(self) -> bool:
        """Become the only sender of this run until the process ends; False where another process is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire()
        except ValueError:
            return False
        return True

    def unlock(self) -> None:
        """Let another process send."""
        self._lock.release()

    def waiting(self) -> str:
        """What MLflow does not have yet, for a message; an empty text where it has everything. Reads all of it."""
        self._load()
        rows = sum(bool(self._news(row)) for row in read_cells_since(self.run_dir.metrics_csv, 0))
        files = sum(self._facts.get(name) != version for name, version, _ in self._files(is_final=True))
        others = [name for name, value in self._others() if self._facts.get(name) != value]
        target = self.read_target()
        if target and self._facts.get("status") != [target["status"], target["end_ms"]]:
            others.append("status")
        parts = [f"{rows} steps of metrics" if rows else "", f"{files} files" if files else "", *others]
        return ", ".join(filter(None, parts))

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
            run = self._open_run()
            for name, value in self._others():
                self._deliver(name, value, partial(self._write_other, run, name, value))
            if with_metrics:
                self._send_metrics(run)
            status = (target["status"], target["end_ms"])
            self._deliver("status", list(status), partial(run.finish, *status) if status[1] else run.resume)
            for name, version, path in self._files(is_final=is_final):
                self._deliver(name, version, partial(_write_file, run, path, name))
            if target["parent"] and target["status"] != "RUNNING":
                self._deliver("sweep", target["end_ms"], run.update_sweep_table)
        except Exception as error:  # servers, disks and databases fail in every way; training must not
            return error
        return None

    def close_killed_run(self) -> bool:
        """Mark a run that did not end by itself as killed, now that nobody runs it; whether it was necessary."""
        if self.read_target()["status"] != "RUNNING":
            return False
        file = self.run_dir.metrics_csv
        end_ms = int((file.stat().st_mtime if file.exists() else time.time()) * 1000)
        self.write_target(status="KILLED", end_ms=end_ms)
        return True

    def _others(self) -> Iterator[tuple[str, Any]]:
        """Settings and tags, by what a message calls them."""
        config = self.run_dir.newest_config()
        if config.exists():
            yield "settings", config.name
        with suppress(OSError, ValueError):
            alarms: dict[str, str] = json.loads((self.run_dir.path / ALARMS).read_text(encoding="utf-8"))
            yield from ((f"alarm.{name}", text) for name, text in alarms.items())

    def _write_other(self, run: MlflowRun, name: str, value: Any) -> None:
        if name != "settings":
            run.log_tag(name, value)
        elif changed := run.log_params(self.run_dir.stored_config()):
            log.warning(
                "settings differ from the start of this run: %s; MLflow keeps the first values as parameters and shows "
                "the new ones as tags resumed.<name>",
                ", ".join(changed),
            )

    def _files(self, *, is_final: bool) -> Iterator[tuple[str, str, Path]]:
        """Path in the folder, version and place of what MLflow gets."""
        folder = self.run_dir.path.resolve()
        for pattern in ARTIFACTS + (AT_THE_END if is_final else ()):
            for path in sorted(folder.glob(pattern)):
                if path.name.startswith(".") or not path.is_file():
                    continue
                if not path.resolve().is_relative_to(folder):  # a folder may be anybody's, and link to any file
                    log.warning("%s lies outside the run folder %s and is not sent", path, folder)
                    continue
                facts = path.stat()
                yield str(path.relative_to(folder)), f"{facts.st_mtime_ns}:{facts.st_size}", path

    def _send_metrics(self, run: MlflowRun) -> None:
        """Send cells that are new, from the last two steps that were looked at on: they may have got more of them."""
        rows = read_cells_since(self.run_dir.metrics_csv, self._since or 0)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            chunk = rows[start : start + ROWS_AT_ONCE]
            new = [(row, cells) for row in chunk if (cells := self._news(row))]
            if new:
                self._write_points(run, [self._points(row, cells) for row, cells in new])
                lines = [json.dumps({"step": int(row["step"]), "cells": cells}) + "\n" for row, cells in new]
                append_whole(self._delivered_file, "".join(lines).encode())
            for row, cells in new:
                self._rows.setdefault(int(row["step"]), {}).update(cells)
        if rows:  # the last but one: who logs after the next step has begun logs of this one
            self._since = int(rows[max(len(rows) - 2, 0)]["step"])
        self._rows = {step: cells for step, cells in self._rows.items() if step >= (self._since or 0)}

    def _news(self, row: Cells) -> Cells:
        known = self._rows.get(int(row["step"]), {})
        return {
            name: cell
            for name, cell in row.items()
            if cell and name not in ("step", TIME_COLUMN) and known.get(name) != cell
        }

    def _points(self, row: Cells, cells: Cells) -> list[Point]:
        return [(name, float(cell), int(row["step"]), int(row[TIME_COLUMN])) for name, cell in cells.items()]

    def _write_points(self, run: MlflowRun, points_of_rows: Sequence[list[Point]]) -> None:
        try:
            run.log_metrics([point for points in points_of_rows for point in points])
        except Exception as error:
            if not is_refused(error):
                raise
            for points in points_of_rows:
                self._unless_refused(f"metrics of step {points[0][2]}", partial(run.log_metrics, points))

    def _deliver(self, name: str, value: Any, write: Callable[[], object]) -> None:
        """Send a fact that MLflow does not have, and note that it has it."""
        if self._facts.get(name) != value:
            self._unless_refused(name, write)
            append_whole(self._delivered_file, (json.dumps({"fact": name, "is": value}) + "\n").encode())
            self._facts[name] = value

    def _unless_refused(self, what: str, write: Callable[[], object]) -> None:
        try:
            write()
        except Exception as error:
            if not is_refused(error):
                raise
            log.warning("MLflow refused %s for good, so it is left out: %s", what, error)

    def _load(self) -> None:
        """Read what was delivered; a line that a kill cut off is none, and what it said is sent once more."""
        self._facts, self._rows, self._since = {}, {}, 0
        if not self._delivered_file.exists():
            return
        content = self._delivered_file.read_bytes()
        if not content.endswith(b"\n"):
            append_whole(self._delivered_file, b"\n")
        for line in content.splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if "step" in record:
                self._rows.setdefault(record["step"], {}).update(record["cells"])
            else:
                self._facts[record["fact"]] = record["is"]

    def _open_run(self) -> MlflowRun:
        if self._run is None:
            target = self.read_target()
            uri = self.tracking_uri_override or target["tracking_uri"]
            self._run = MlflowRun(tracking_uri=uri, run_id=self.run_dir.mlflow_run_id, target=target)
            self.run_dir.write_mlflow_run_id(self._run.run_id)
        return self._run


def _write_file(run: MlflowRun, path: Path, name: str) -> None:
    """Upload a file under its path in the run folder; sampled responses as a table, too, which the UI shows."""
    run.log_file(path, str(Path(name).parent).removeprefix("."))
    if path.suffix == ".parquet" and path.parent.name == "train":
        try:
            rows = _shown_responses(path)
        except (OSError, ValueError, KeyError) as error:  # a folder may be anybody's; files behind it must not wait
            log.warning("%s holds no sampled responses, so MLflow shows no table of it: %s", path, error)
            return
        run.log_table(str(Path(name).with_suffix(".json")), rows)


def _shown_responses(path: Path) -> list[dict[str, Any]]:
    import pandas as pd

    from .response_log import shown_slots

    frame = pd.read_parquet(path)
    shown = frame["slot"].isin(shown_slots(frame, TABLE_PROMPTS))
    rows: list[dict[str, Any]] = json.loads(frame[shown].to_json(orient="records"))
    return rows
