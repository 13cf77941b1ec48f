"""The end of a process in which native code holds Python's lock for ever."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import subprocess
import sys
from pathlib import Path

HUNG_SIGNAL = signal.SIGVTALRM
"""Ends the process, 154 in a shell; nothing else here has a use for it."""
_PROGRAM = Path(__file__).with_name("last_resort_process.py")


class LastResort:
    """Ends this process, with the stacks of all its threads, when it was not put off for too long.

    Whoever holds the lock keeps every thread of Python from running, so another process has to watch. A timer within
    this one, as ``faulthandler`` has, would not do: its time goes on while a scheduler has stopped the process, and
    when that continues the timer is over before Python can put it off. ``faulthandler`` writes the stacks all the same,
    on a signal, for which it needs no interpreter.

    Args:
        tick_s: seconds between two calls of :meth:`put_off`.
    """

    def __init__(self, tick_s: float) -> None:
        # The handler before is the system's, which ends the process.
        faulthandler.register(HUNG_SIGNAL, file=sys.__stderr__ or 2, all_threads=True, chain=True)
        arguments = map(str, (_PROGRAM, os.getpid(), int(HUNG_SIGNAL), tick_s))
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._told = self._process.stdin
        os.set_blocking(self._told.fileno(), False)

    def put_off(self, seconds: float) -> None:
        """Show that Python runs, and say for how long it need not show it again."""
        with contextlib.suppress(OSError):  # somebody killed the watcher: no reason to end a run
            self._told.write(f"{seconds:g}\n".encode())

    def close(self) -> None:
        """End the watching process."""
        self._process.kill()
        self._process.wait()
        self._told.close()
        faulthandler.unregister(HUNG_SIGNAL)
