"""Reads a large data set into its cache in a process of its own, while this process imports what takes seconds."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import warnings
from contextlib import suppress

from ada_lightning.data.dataset import DatasetSource

_readers: list[subprocess.Popen[bytes]] = []
"""Kept: a reader ends as soon as nobody holds the other end of its input."""


def read_ahead(source: DatasetSource) -> None:
    """Begin to read what goes into the cache; whoever needs it afterwards waits for the rest.

    Nothing begins where the data set is small. What goes wrong in the other process is left to those who wait: they
    find no cache, read the rows themselves, and say what is wrong with them.

    Args:
        source: is copied into the other process.
    """
    if not source.is_large:
        return
    reader = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert reader.stdin is not None
    with suppress(BrokenPipeError):
        pickle.dump(source, reader.stdin)
        reader.stdin.flush()
    _readers.append(reader)


def _end_with_whoever_asked() -> None:
    sys.stdin.buffer.read()  # returns when the other process has ended, in whatever way
    os._exit(1)


if __name__ == "__main__":
    asked = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_whoever_asked, daemon=True).start()
    warnings.simplefilter("ignore")  # whoever asked warns too
    with suppress(Exception, KeyboardInterrupt):
        asked.fill_cache()
    os._exit(0)  # the thread that waits holds the input, so that Python could not end by itself
