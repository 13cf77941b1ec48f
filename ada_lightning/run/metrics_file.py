"""Reads ``metrics.csv`` of a run folder, also while the run writes to it; imports nothing heavy."""

from __future__ import annotations

import csv
import io
from pathlib import Path


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Read a metrics file, one mapping per step without the metrics that the step lacks.

    A last line cut off by a kill is left out. A file that does not exist has no steps.
    """
    return [{key: float(cell) for key, cell in row.items() if cell != ""} for row in read_cells(path)[1]]


def read_cells(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Read the columns and the rows of a metrics file as they are written, empty cells included."""
    if not path.exists():
        return [], []
    text = path.read_bytes().decode("utf-8", errors="replace")
    complete = text[: text.rfind("\n") + 1]  # a line that a kill cut off has no line end
    header, *lines = list(csv.reader(io.StringIO(complete))) or [[]]
    return header, [dict(zip(header, line, strict=True)) for line in lines]
