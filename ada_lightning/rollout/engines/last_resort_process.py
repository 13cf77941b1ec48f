"""The main program of a process that ends another one in which no Python runs any more: ``LastResort`` starts it.

It is run by its path and imports the standard library only, so that it costs little and starts at once.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path

_OTHERS_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""A scheduler sends them to every process of a job; they are the other process's to handle."""
_DUMP_S = 10.0
"""Seconds for the other process to write its stacks, before it is killed."""


def main(pid: int, number: int, tick_s: float) -> None:
    """Watch a process until it ends, or closes its end of standard input, or is to be ended.

    Args:
        pid: the parent.
        number: signal that makes it write its stacks and end.
        tick_s: seconds between two of its signs of life.
    """
    for others in _OTHERS_SIGNALS:
        signal.signal(others, signal.SIG_IGN)
    if silent_s := _wait_for_silence(pid, tick_s):
        _end(pid, number, silent_s)


def _wait_for_silence(pid: int, tick_s: float) -> float:
    """Return the seconds without a sign of life once they are too many; 0 where nobody is there any more.

    Time in which the other process was stopped does not count, nor does time in which this one was.
    """
    allowed_s, silent_s = float("inf"), 0.0
    while os.getppid() == pid:
        began = time.monotonic()
        if select.select([0], [], [], tick_s)[0]:
            if not (told := os.read(0, 2**16)):
                return 0.0
            allowed_s, silent_s = float(told.split()[-1]), 0.0
        elif not _is_stopped(pid):
            silent_s += min(time.monotonic() - began, 2 * tick_s)
            if silent_s > allowed_s:
                return silent_s
    return 0.0


def _is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger stopped it; where the system cannot tell, it is not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] in ("T", "t")


def _end(pid: int, number: int, silent_s: float) -> None:
    name = signal.Signals(number).name
    with contextlib.suppress(OSError):  # a terminal that is gone
        print(
            f"\nno Python has run in process {pid} for {silent_s:.0f} s: native code hangs and holds the interpreter's "
            f"lock. The process ends by {name} (code {128 + number} in a shell) and says where it hung. Continue from "
            "the last checkpoint with: ckpt=last\n",
            file=sys.stderr,
            flush=True,
        )
    given_up_at = time.monotonic() + _DUMP_S
    with contextlib.suppress(ProcessLookupError):
        if os.getppid() == pid:
            os.kill(pid, number)
        while os.getppid() == pid:
            time.sleep(0.1)
            if time.monotonic() > given_up_at:
                os.kill(pid, signal.SIGKILL)
                return


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
