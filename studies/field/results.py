"""What is committed of many short runs: one file, a line for each."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from studies.runs import StudyRun


class Results:
    """A file of JSON lines; a run is found again by its name and must have the same settings.

    Args:
        path: the file; it is made with the first line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._rows: dict[str, dict[str, Any]] = {}
        if path.exists():
            self._rows = {row["name"]: row for row in map(json.loads, path.read_text().splitlines())}

    def has(self, run: StudyRun) -> bool:
        """Whether the run's result is here.

        Raises:
            ValueError: a run of that name is, with other settings.
        """
        row = self._rows.get(run.name)
        if row is not None and tuple(row["overrides"]) != run.overrides:
            raise ValueError(
                f"{self.path.name} has {run.name} with other settings ({' '.join(row['overrides'])}); "
                "remove that line to train it anew"
            )
        return row is not None

    def row(self, run: StudyRun) -> dict[str, Any]:
        """Return a run's result; KeyError where :meth:`has` is false."""
        return self._rows[run.name]

    def add(self, run: StudyRun) -> None:
        """Keep the result of a run that is done; the file is always whole lines."""
        row = {"name": run.name, **run.measured()}
        with self._lock:
            self._rows[run.name] = row
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
