"""Writes files whole or not at all, and appends only whole lines even if the disk is full."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No room on the device, in the quota, or under the limit of a file's size."""

LEAST_OPEN_FILES = 256
"""What a run has open at once, with room: an engine, graders and their pipes, libraries that are being loaded."""
_USUAL_OPEN_FILES = 4096


def allow_open_files() -> None:
    """Raise this process's limit of open files to a usual one, as far as the system lets it.

    Raises:
        ValueError: that leaves too few to work with.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _USUAL_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _USUAL_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if wanted < LEAST_OPEN_FILES:
        raise ValueError(
            f"this process may have {wanted} files open, and a run needs {LEAST_OPEN_FILES}: start it from a shell "
            f"whose limit is higher (ulimit -n {_USUAL_OPEN_FILES})"
        )


def append_whole(path: Path, content: bytes) -> int:
    """Append all of ``content`` or nothing.

    A write to a nearly full disk takes what fits and says how much that was: half a line, to which the next one would
    be glued. It is taken back here.

    Returns:
        Where in the file it begins.

    Raises:
        OSError: the disk is full or gone; the file is as it was.
    """
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        start = os.fstat(file).st_size
        try:
            write_whole(file, content, path)
        except OSError:
            os.ftruncate(file, start)
            raise
        return start
    finally:
        os.close(file)


def write_whole(file: int, content: bytes, path: Path) -> None:
    """Write at the position of an open file, with one system call where there is room.

    Raises:
        OSError: only a part found room.
    """
    if os.write(file, content) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def is_disk_full(error: BaseException) -> bool:
    """Whether an error, or what it came from, says that there is no room left."""
    return any(isinstance(cause, OSError) and cause.errno in FULL_DISK for cause in causes(error))


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those behind it, the newest first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give a temporary name to write to; it becomes ``target`` where the body succeeds, and is removed where not.

    On the disk before it has its name, so that a machine that loses power leaves no empty file of that name. A killed
    process may leave the temporary one: its name begins with a dot and nobody reads it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.tmp{os.getpid()}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write a file so that a reader finds the old content or the new, never a part of it."""
    with replacing(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
