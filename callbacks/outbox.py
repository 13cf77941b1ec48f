"""A queue of records in a file: what was put in survives the process, until it was taken out."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

READ_BYTES = 1_000_000
"""How much of the queue is held in memory at once, except for a single longer record."""

Record = dict[str, Any]


class Outbox:
    """One writer or several append JSON records; one reader takes them out in order.

    The file empties itself whenever everything was taken. A kill loses nothing that was appended: the reader's position
    is written after each :meth:`commit`, so that at worst the last batch is read twice. A power cut may lose what the
    operating system had not written yet.

    Args:
        path: a ``.jsonl`` file; the reader's position lies beside it.
        max_bytes: a longer queue takes nothing more.
    """

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self._position_file = path.with_suffix(".position")
        self._lock = Lock()  # flock does not exclude threads of one process that share a file
        self._is_open = False

    def append(self, record: Mapping[str, Any]) -> bool:
        """Add a record, with one system call; on its way to the disk when this returns.

        Returns:
            False where the queue is full.

        Raises:
            OSError: the disk is full or gone.
        """
        line = (json.dumps(record, default=str) + "\n").encode()
        with self._locked() as file:
            size = os.fstat(file).st_size
            if not size and not self._is_open:  # a kill while the file was emptied leaves a position in what comes now
                self._write_position(0)
            if size + len(line) > self.max_bytes:
                return False
            if not self._is_open and size and os.pread(file, 1, size - 1) != b"\n":
                line = b"\n" + line  # a kill or a full disk cut the last line
            self._is_open = False  # until the line is whole
            if os.write(file, line) != len(line):
                raise OSError(f"{self.path} took only a part of a record: is the disk full?")
            self._is_open = True
        return True

    def read(self) -> tuple[list[Record], int]:
        """Return the oldest records, about a megabyte of them, and the position behind them for :meth:`commit`.

        A line that is not a record, as a kill leaves, is passed over.
        """
        if not self.path.exists():
            return [], 0
        with self._locked() as file:
            start, size = self._position(file), os.fstat(file).st_size
            chunk = os.pread(file, READ_BYTES, start)
            while b"\n" not in chunk and (more := os.pread(file, READ_BYTES, start + len(chunk))):
                chunk += more
        # What has no line end at the end of the file never gets one: whoever wrote it is gone.
        complete = chunk if start + len(chunk) >= size else chunk[: chunk.rfind(b"\n") + 1]
        return list(_parse(complete)), start + len(complete)

    def commit(self, position: int) -> None:
        """Take out everything before ``position``; empty the file where that is all."""
        with self._locked() as file:
            if position >= os.fstat(file).st_size:
                os.ftruncate(file, 0)  # first: a position behind the end counts as the start
                position = 0
            self._write_position(position)

    def keep(self, is_wanted: Callable[[Record], Record | None]) -> None:
        """Replace each record by what the function makes of it, None to drop it. For the reader only."""
        with self._locked() as file:
            start = self._position(file)
            size = os.fstat(file).st_size
            records = [is_wanted(record) for record in _parse(os.pread(file, size - start, start))]
            kept = "".join(json.dumps(record) + "\n" for record in records if record is not None).encode()
            # Behind the old records, then past them: a kill in between leaves both, and repeats are harmless.
            if os.write(file, b"\n" + kept) != len(kept) + 1:
                raise OSError(f"{self.path} took only a part of its records: is the disk full?")
            self._write_position(size)

    def is_empty(self) -> bool:
        """Whether nothing waits."""
        if not self.path.exists():
            return True
        with self._locked() as file:
            return self._position(file) >= os.fstat(file).st_size

    def count(self) -> int:
        """Records that wait. Reads all of them."""
        if not self.path.exists():
            return 0
        with self._locked() as file:
            start = self._position(file)
            return sum(1 for _ in _parse(os.pread(file, os.fstat(file).st_size - start, start)))

    def _position(self, file: int) -> int:
        try:
            position = int(self._position_file.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            position = 0
        return position if position <= os.fstat(file).st_size else 0

    def _write_position(self, position: int) -> None:
        temporary = self._position_file.with_name(f".{self._position_file.name}.tmp{os.getpid()}")
        temporary.write_text(f"{position}\n", encoding="ascii")
        temporary.replace(self._position_file)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file, alone: the command that delivers after the run may meet a run that resumes."""
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                with suppress(OSError):  # a file system without locks; then nobody may deliver during the run
                    fcntl.flock(file, fcntl.LOCK_EX)
                yield file
            finally:
                os.close(file)


def _parse(lines: bytes) -> Iterator[Record]:
    for line in lines.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record
