"""Keeps a reward process, and whatever it starts, from disturbing the run or outliving it."""

from __future__ import annotations

import os
import resource
import select
import signal
import time
from collections.abc import Sequence
from typing import NamedTuple

from ada_lightning.run.credentials import VARIABLES

_CHECK_INTERVAL_S = 0.2  # only where the system cannot wait for a process that is not a child


class Isolation(NamedTuple):
    """What a reward process may use."""

    trainer_pid: int
    """Process whose end ends the reward process too."""
    memory_limit_bytes: int | None
    """Heap and private writable mappings of the process (``RLIMIT_DATA``: shared libraries do not count)."""
    output_file: str | None
    """Where standard output and error go; None drops them."""


def isolate(isolation: Isolation) -> None:
    """Cut this process off from the terminal, limit its memory, and have its children die with it.

    The process becomes the leader of a session and process group, so that Ctrl-C does not reach it and everything it
    starts can be killed at once. A guardian does that when the process ends, in whatever way, or when the trainer does.
    A child that opens a session of its own escapes.

    Raises:
        OSError: ``output_file`` cannot be written.
    """
    if os.getpgrp() != os.getpid():
        os.setsid()
    for name in VARIABLES:
        os.environ.pop(name, None)
    _redirect_output(isolation.output_file or os.devnull)
    _start_guardian((os.getpid(), isolation.trainer_pid))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a reward that crashes may do so thousands of times
    if isolation.memory_limit_bytes is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = isolation.memory_limit_bytes if hard < 0 else min(isolation.memory_limit_bytes, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _redirect_output(path: str) -> None:
    target = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)


def _start_guardian(pids: tuple[int, int]) -> None:
    """Start a process that waits for the end of this one. It is no child, so a reward that waits never meets it."""
    starter = os.fork()
    if starter:
        os.waitpid(starter, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, os.sysconf("SC_OPEN_MAX"))  # the pool's pipes among them
            _wait_for_first(pids)
            os.killpg(pids[0], signal.SIGKILL)
    except OSError:  # nothing is left of the group
        pass
    finally:
        os._exit(0)


def _wait_for_first(pids: Sequence[int]) -> None:
    """Return as soon as one of these processes has ended."""
    poller = select.poll()
    try:
        for pid in pids:
            poller.register(os.pidfd_open(pid), select.POLLIN)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # Linux before 5.3, other systems
        while all(_is_alive(pid) for pid in pids):
            time.sleep(_CHECK_INTERVAL_S)
        return
    poller.poll()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
