"""A call of the engine that never returns ends the process, which says where it hung."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.run.stopping import STALLED

_TICK_S = 1.0
_CALLS = ("submit", "poll", "abort", "load_weights", "publish", "keep", "sleep", "close")


class TimeLimit:
    """Limits the time of calls of an engine.

    No one can stop native code from inside its process. So a thread writes the stacks of all threads to standard error
    and to ``report_file``, and ends the process with :data:`~ada_lightning.run.stopping.STALLED`; the last checkpoint
    is there to continue from. Native code that holds Python's lock keeps that thread from running, too.

    Time counts in which this process ran. A job that a scheduler or Ctrl-Z stopped, for however long, goes on.

    Args:
        stall_limit_s: seconds that one call may take.
        start_limit_s: seconds that the start of an engine may take.
        report_file: where the stacks go.

    Raises:
        ValueError: a limit is not a positive number of seconds.
    """

    def __init__(self, *, stall_limit_s: float, start_limit_s: float, report_file: Path) -> None:
        self._limits = {"stall_limit_s": stall_limit_s, "start_limit_s": start_limit_s}
        for name, limit in self._limits.items():
            if not 0 < limit < float("inf"):
                raise ValueError(f"rollout.{name} must be a positive number of seconds; got {limit}")
        self.report_file = report_file
        self._call: tuple[str, str] | None = None
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def engine(self, engine: RolloutEngine) -> RolloutEngine:
        """Limit all calls of an engine, and return it."""
        for name in _CALLS:
            if hasattr(engine, name):
                setattr(engine, name, partial(self._limited, name, getattr(engine, name)))
        return engine

    @contextmanager
    def watch(self, name: str, limit: str = "stall_limit_s") -> Iterator[None]:
        """Limit the body, a call named ``name``, by one of the two limits."""
        self._call = (name, limit)  # a new object for every call
        if self._thread is None:
            self._is_over.clear()
            self._thread = threading.Thread(target=self._work, name="engine time limit", daemon=True)
            self._thread.start()
        try:
            yield
        finally:
            self._call = None

    def _limited(self, name: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        with self.watch(name):
            return call(*args, **options)

    def close(self) -> None:
        """Stop watching. Safe to call twice."""
        if self._thread is not None:
            self._is_over.set()
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        tick_s = min(_TICK_S, min(self._limits.values()) / 4)
        seen, seconds, looked_at = None, 0.0, time.monotonic()
        while not self._is_over.wait(tick_s):
            call, now = self._call, time.monotonic()
            passed_s, looked_at = min(now - looked_at, 2 * tick_s), now  # more: this process was stopped
            seconds = seconds + passed_s if call is seen else 0.0
            seen = call
            if call is not None and seconds > self._limits[call[1]]:
                self._end_process(*call)

    def _end_process(self, name: str, limit: str) -> None:
        text = (
            f"\nthe engine hangs: {name} has not returned within rollout.{limit} = {self._limits[limit]:g} s. This "
            f"process ends with exit code {STALLED}; where it hung: {self.report_file}. Continue from the last "
            "checkpoint with ckpt=last, or start again if there is none\n"
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
