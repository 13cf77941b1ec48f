"""An engine that hangs becomes an engine that broke, or a process that ended and says where it hung."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from ada_lightning.rollout.engines.exit_codes import STALLED
from ada_lightning.rollout.engines.last_resort import LastResort
from ada_lightning.rollout.engines.patience import Patience

GRACE_S = 30.0
"""Between the attempt to interrupt a call and the end of the process."""
_TICK_S = 1.0


class EngineStalledError(RuntimeError):
    """A call of the engine took longer than it may; raised in the middle of it."""


class _Call:
    """One call under way."""

    __slots__ = ("limit", "limit_s", "name", "patience", "since", "was_interrupted")

    def __init__(self, name: str, limit: str, limit_s: float) -> None:
        self.name = name
        self.limit = f"rollout.{limit} = {limit_s:g} s"
        self.limit_s = limit_s
        self.patience = Patience(limit_s)
        self.since = time.monotonic()
        self.was_interrupted = False


class Watchdog:
    """Watches calls of an engine in the trainer's own process.

    Three ways out, one after another. After ``limit_s`` a signal raises :class:`EngineStalledError` inside the call:
    enough for whatever waits in Python, and the step is repeated with a new engine. A call that is stuck in native code
    cannot be interrupted: ``grace_s`` later the stacks of all threads are written to standard error and to
    ``report_file``, and the process ends with :data:`~ada_lightning.rollout.engines.exit_codes.STALLED`. Where native
    code holds the interpreter's lock not even this thread runs: then a process beside this one has the stacks written
    and ends it, a minute later (:class:`~ada_lightning.rollout.engines.last_resort.LastResort`).

    Time counts in which this process ran. A job that a scheduler or Ctrl-Z stopped, for however long, goes on.

    Args:
        limit_s: seconds that one call may take.
        start_limit_s: seconds that the start of an engine may take.
        report_file: where the stacks go.
        grace_s: seconds for the interrupted call to end.

    Raises:
        ValueError: a limit is not a positive number of seconds.
    """

    def __init__(
        self, *, limit_s: float, report_file: Path, start_limit_s: float = 1800.0, grace_s: float = GRACE_S
    ) -> None:
        for name, limit in (("stall_limit_s", limit_s), ("start_limit_s", start_limit_s)):
            if not 0 < limit < float("inf"):
                raise ValueError(f"rollout.{name} must be a positive number of seconds; got {limit}")
        self.limit_s = limit_s
        self.start_limit_s = start_limit_s
        self.report_file = report_file
        self.grace_s = grace_s
        self._call: _Call | None = None
        self._thread: threading.Thread | None = None
        self._last_resort: LastResort | None = None
        self._is_over = threading.Event()
        self._earlier_handler: Any = None

    @contextmanager
    def watch(self, name: str) -> Iterator[None]:
        """Watch the body, a call named ``name``; ``start`` has a limit of its own.

        Raises:
            EngineStalledError: it took longer than it may.
        """
        if name == "start":
            self._call = _Call(name, "start_limit_s", self.start_limit_s)
        else:
            self._call = _Call(name, "stall_limit_s", self.limit_s)
        if self._thread is None:
            self._start()
        elif name == "start":
            self._put_off_last_resort()
        try:
            yield
        finally:
            self._call = None

    def close(self) -> None:
        """Stop watching. Safe to call twice."""
        if self._thread is None:
            return
        self._is_over.set()
        self._thread.join()
        self._thread = None
        if self._last_resort is not None:
            self._last_resort.close()
            self._last_resort = None
        if self._earlier_handler is not None:
            signal.signal(signal.SIGALRM, self._earlier_handler)
            self._earlier_handler = None

    def _start(self) -> None:
        self._is_over.clear()
        if threading.current_thread() is threading.main_thread():  # only there can a handler be set, and run
            self._earlier_handler = signal.signal(signal.SIGALRM, self._raise_in_call)
        self._last_resort = LastResort(self._tick_s)
        self._put_off_last_resort()
        self._thread = threading.Thread(target=self._work, name="engine watchdog", daemon=True)
        self._thread.start()

    def _raise_in_call(self, number: int, frame: FrameType | None) -> None:
        call = self._call
        if call is None or not call.was_interrupted:
            if callable(self._earlier_handler):  # somebody else's alarm
                self._earlier_handler(number, frame)
        else:
            raise EngineStalledError(f"{call.name} did not return within {call.limit}")

    def _work(self) -> None:
        looked_at = time.monotonic()
        while not self._is_over.wait(self._tick_s):
            now = time.monotonic()
            self._put_off_last_resort()
            if (call := self._call) is not None:
                self._look_at(call, now - max(looked_at, call.since))
            looked_at = now

    def _look_at(self, call: _Call, seconds: float) -> None:
        """Act where a call takes too long.

        Args:
            call: under way.
            seconds: that it went on since it was looked at; of more than two ticks this process was stopped.
        """
        is_late = call.patience.waited(seconds, self._tick_s)
        if is_late and not call.was_interrupted and self._earlier_handler is not None:
            call.was_interrupted = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
        elif call.patience.silent_s > call.limit_s + self.grace_s:
            self._end_process(call)

    @property
    def _tick_s(self) -> float:
        return min(_TICK_S, self.limit_s / 4)

    def _put_off_last_resort(self) -> None:
        """Have the process ended unless this is called again: Python runs as long as it is."""
        call = self._call
        delay_s = (call.limit_s if call else self.limit_s) + self.grace_s + 60 * self._tick_s
        if self._last_resort is not None:
            self._last_resort.put_off(delay_s)

    def _end_process(self, call: _Call) -> None:
        text = (
            f"\nthe engine hangs: {call.name} has not returned for {call.patience.silent_s:.0f} s "
            f"({call.limit}) and cannot be interrupted. This process ends with exit code {STALLED}; where it hung: "
            f"{self.report_file}. Continue from the last checkpoint with: ckpt=last\n"
        )
        try:
            print(text, file=sys.__stderr__, flush=True)
            faulthandler.dump_traceback(file=sys.__stderr__ or 2, all_threads=True)
            with self.report_file.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                faulthandler.dump_traceback(file=file, all_threads=True)
        finally:
            os._exit(STALLED)
