"""Metrics in one wide CSV file that a kill at any moment leaves readable."""

from __future__ import annotations

import csv
import io
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from ada_lightning.run.files import append_whole, replacing, write_whole
from ada_lightning.run.metrics_file import TIME_COLUMN, read_cells, read_metrics
from ada_lightning.run.run_dir import RunDir

__all__ = ["MetricsCsv", "read_metrics"]


class MetricsCsv(Logger):
    """Appends to ``metrics.csv`` of the run folder: one row per step, one column per metric.

    ``unix_ms`` says when a row began.

    Lightning's ``CSVLogger`` deletes the file of an earlier session; here a resume continues it, and rows of steps that
    the resume repeats are dropped.

    Args:
        run_dir: folder of the run.
    """

    def __init__(self, *, run_dir: str | Path) -> None:
        super().__init__()
        self.path = RunDir(run_dir).metrics_csv
        self._columns: list[str] = []
        self._row: dict[str, str] = {}
        self._row_start = 0
        self._is_open = False

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.path.parent.name

    @property
    def version(self) -> str:
        """Empty: a run folder has one metrics file."""
        return ""

    @property
    def log_dir(self) -> str:
        """Folder of the run."""
        return str(self.path.parent)

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Nothing to do: the run folder's ``config.yaml`` holds every setting."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Merge the metrics into the row of their step; on disk when this returns."""
        step = step or 0
        if not self._is_open:
            self._forget_repeated(step)
        cells = {key: _cell(value) for key, value in metrics.items()} | {"step": str(step)}
        current = int(self._row["step"]) if self._row else -1
        if step != current:
            cells[TIME_COLUMN] = str(int(time.time() * 1000))
        if step < current or not cells.keys() <= set(self._columns):
            self._merge_into_table(cells)
        elif step == current:
            self._replace_last(self._row | cells)
        else:
            self._append(cells)

    def _forget_repeated(self, step: int) -> None:
        """Leave out what a resumed run is about to repeat: the training of the step it logs first, and later rows.

        An evaluation has the number of the step that comes after it: it was made before the checkpoint, and stays.
        """
        columns, rows = read_cells(self.path)
        kept = [row for row in rows if int(row["step"]) < step]
        for row in (row for row in rows if int(row["step"]) == step):
            evaluation = {name: cell for name, cell in row.items() if name.startswith("eval") and cell}
            if evaluation:
                kept.append({"step": row["step"], TIME_COLUMN: row.get(TIME_COLUMN, "")} | evaluation)
        self._rewrite(columns or ["step", TIME_COLUMN], kept)
        self._is_open = True

    def _append(self, row: dict[str, str]) -> None:
        self._row_start = append_whole(self.path, self._line_of(row))
        self._row = row

    def _replace_last(self, row: dict[str, str]) -> None:
        old, new = self._line_of(self._row), self._line_of(row)
        if len(new) < len(old):  # a kill before a truncation would leave the old line's end behind
            self._merge_into_table(row)
            return
        with self.path.open("r+b", buffering=0) as file:
            file.seek(self._row_start)
            try:
                write_whole(file.fileno(), new, self.path)  # a killed process leaves the old line or the new
            except OSError:
                file.seek(self._row_start)
                file.write(old)  # had room before
                file.truncate()
                raise
        self._row = row

    def _merge_into_table(self, cells: dict[str, str]) -> None:
        _, rows = read_cells(self.path)
        by_step = {int(row["step"]): row for row in rows}
        step = int(cells["step"])
        known = {name: cell for name, cell in by_step.get(step, {}).items() if cell}
        by_step[step] = known | cells | ({TIME_COLUMN: known[TIME_COLUMN]} if TIME_COLUMN in known else {})
        new_columns = [column for column in cells if column not in self._columns]
        self._rewrite(self._columns + new_columns, [by_step[key] for key in sorted(by_step)])

    def _rewrite(self, columns: Sequence[str], rows: Sequence[dict[str, str]]) -> None:
        lines = [_line(columns), *(_line([row.get(column, "") for column in columns]) for row in rows)]
        with replacing(self.path) as temporary:
            temporary.write_bytes(b"".join(lines))
        self._columns = list(columns)
        self._row = dict(rows[-1]) if rows else {}
        self._row_start = sum(map(len, lines[:-1]))

    def _line_of(self, row: Mapping[str, str]) -> bytes:
        return _line([row.get(column, "") for column in self._columns])


def _line(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


def _cell(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{float(value):.9g}"
