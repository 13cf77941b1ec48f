"""Reads ``metrics.csv`` of a run folder, also while the run writes to it; imports nothing heavy."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

TIME_COLUMN = "unix_ms"
"""When the row of a step began: milliseconds since 1970. No metric of the run."""
_BLOCK = 65_536
"""Bytes read at once from the end of a file."""


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Read a metrics file, one mapping per step without the metrics that the step lacks.

    A last line cut off by a kill is left out. A file that does not exist has no steps.
    """
    return [
        {key: float(cell) for key, cell in row.items() if cell != "" and key != TIME_COLUMN}
        for row in read_cells(path)[1]
    ]


def read_cells(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Read the columns and the rows of a metrics file as they are written, empty cells included."""
    if not path.exists():
        return [], []
    text = path.read_bytes().decode("utf-8", errors="replace")
    complete = text[: text.rfind("\n") + 1]  # a line that a kill cut off has no line end
    header, *lines = list(csv.reader(io.StringIO(complete))) or [[]]
    return header, [dict(zip(header, line, strict=True)) for line in lines]


def read_cells_since(path: Path, step: int) -> list[dict[str, str]]:
    """Read the rows of ``step`` and later as they are written, from the end: what is before is not looked at.

    Rows are in the order of steps, and the step is their first cell. A file that does not exist has none.
    """
    if not path.exists():
        return []
    with path.open("rb") as file:
        header = next(csv.reader([file.readline().decode()]), [])
        start, position = file.tell(), file.seek(0, os.SEEK_END)
        blocks: list[bytes] = []
        while position > start:
            size = min(_BLOCK, position - start)
            position -= size
            file.seek(position)
            blocks.append(file.read(size))
            whole = blocks[-1].split(b"\n")[1:-1]  # the first and the last may have been cut
            if any(_step_of(line, default=step) < step for line in whole):
                break
    lines = b"".join(reversed(blocks)).split(b"\n")[:-1]  # a line that a kill cut off has no line end
    wanted = [line.decode() for line in lines if _step_of(line, default=step - 1) >= step and line.count(b",")]
    cells = [line for line in csv.reader(wanted) if len(line) == len(header)]
    return [dict(zip(header, line, strict=True)) for line in cells]


def _step_of(line: bytes, *, default: int) -> int:
    first = line.split(b",", 1)[0]
    return int(first) if first.isdigit() else default
