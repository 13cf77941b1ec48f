"""One process at a time in a folder."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from pathlib import Path
from typing import TextIO

MOST_TRIES = 100
"""Tries to lock a file that another process may unlink meanwhile; where so many fail, that is not the reason."""


class RunLock:
    """A lock that ends with its process, however that ends. The folder exists when it is taken."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / ".lock"
        self.is_lost = False
        """Whether the folder was deleted or moved while the lock was held; known from :meth:`release` on."""
        self._file: TextIO | None = None

    @property
    def is_held(self) -> bool:
        """Whether this object has the lock."""
        return self._file is not None

    def acquire(self) -> None:
        """Take the lock. Does nothing on a file system without locks.

        Raises:
            ValueError: another process has it.
            FileNotFoundError: the folder is not there.
        """
        for number in range(1, MOST_TRIES + 1):
            if self._file is None:
                self._take(is_last=number == MOST_TRIES)

    def _take(self, *, is_last: bool) -> None:
        """Lock the file of that name; take nothing where another process unlinked it meanwhile.

        The last try takes it anyway: some network file systems never say the same of an open file and of its path.
        """
        file = self.path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            owner = _owner(file.read())
            file.close()
            raise ValueError(
                f"another process{owner} is running in {self.path.parent}: two would overwrite each other's "
                "files; wait until it ends, end it, or choose another name: run_name=<new name>"
            ) from error
        except OSError:  # no locks here: as on some network file systems
            pass
        if not is_last and not self._is_in_place(file):  # a lock on it keeps nobody out
            file.close()
            return
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        file.flush()
        self._file = file

    def release(self) -> None:
        """Let another process in. Safe to call twice."""
        if self._file is not None:
            self.is_lost = not self._is_in_place(self._file)
            self._file.close()
            self._file = None

    def _is_in_place(self, file: TextIO) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self.path.stat())
        except FileNotFoundError:
            return False


def _owner(text: str) -> str:
    try:
        owner = json.loads(text)
        return f" (process {owner['pid']} on {owner['host']})"
    except (ValueError, KeyError, TypeError):
        return ""
