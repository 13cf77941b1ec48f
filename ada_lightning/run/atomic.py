"""Files that are whole or not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
