"""A reward function that does what the response says, for :class:`ada_lightning.rewards.function.FunctionReward`."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from ada_lightning.core.records import Prompt


def obey(prompt: Prompt, text: str) -> object:
    """Misbehave as told; 1.0 for a text that is no order."""
    return ORDERS[text]() if text in ORDERS else 1.0


def _loop() -> float:
    while True:
        pass


def _sleep() -> float:
    time.sleep(1000)
    return 1.0


def _fork() -> float:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return 1.0


def _hog() -> float:
    blocks = []
    while True:
        blocks.append(bytearray(b"x" * 2**26))


def _recurse() -> object:
    return _recurse()


def _print() -> float:
    print("x" * 5_000_000)
    print("x" * 5_000_000, file=sys.stderr)
    return 1.0


def _raise(error: BaseException) -> float:
    raise error


def _fork_and_return() -> float:
    os.fork()
    return 1.0


def _leave_a_process() -> float:
    subprocess.Popen(["sleep", "1000"])
    return 1.0


def _forget_an_alarm() -> float:
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    return 1.0


def _close_streams() -> float:
    sys.stdout.close()
    os.close(0)
    return 1.0


ORDERS: dict[str, Callable[[], object]] = {
    "fork": _fork,
    "fork and return twice": _fork_and_return,
    "leave a process behind": _leave_a_process,
    "forget an alarm": _forget_an_alarm,
    "sys.exit": lambda: sys.exit("bye"),
    "os._exit(0)": lambda: os._exit(0),
    "os._exit(3)": lambda: os._exit(3),
    "segmentation fault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "endless loop": _loop,
    "endless sleep": _sleep,
    "memory": _hog,
    "recursion": _recurse,
    "print": _print,
    "keyboard interrupt": lambda: _raise(KeyboardInterrupt()),
    "generator exit": lambda: _raise(GeneratorExit()),
    "out of memory": lambda: _raise(MemoryError()),
    "close the streams": _close_streams,
    "not a number": lambda: float("nan"),
    "a list": lambda: [1.0],
    "a lambda": lambda: lambda: 1.0,
}
