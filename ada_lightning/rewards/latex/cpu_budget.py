"""A limit on what the comparison of one answer may compute."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_REPEAT_S = 0.05  # a library may catch whatever is raised inside it, so the alarm rings again


class CpuBudgetError(BaseException):
    """The budget is spent. No ``Exception``, which libraries catch on their way."""


class CpuBudget:
    """Seconds of this process's own computing time, so that a busy machine changes no verdict.

    Sizes of numbers are bounded before anything is computed (:mod:`~ada_lightning.rewards.latex.cost`), but not how
    many digits a function of a harmless-looking expression needs.

    Takes ``SIGPROF`` of the process. Signals reach its main thread alone; in another only the pool's limit holds.

    Args:
        seconds: for all :meth:`spend` together.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._is_running = False

    @contextmanager
    def spend(self) -> Iterator[None]:
        """Limit what is inside.

        Raises:
            CpuBudgetError: the budget is spent.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        if self.seconds <= 0:
            raise CpuBudgetError
        signal.signal(signal.SIGPROF, self._ring)  # and stays: a late alarm without a handler ends the process
        self._is_running = True
        try:
            signal.setitimer(signal.ITIMER_PROF, self.seconds, _REPEAT_S)
            try:
                yield
            finally:
                self._is_running = False
        except CpuBudgetError:
            self.seconds = 0.0
            raise
        else:
            self.seconds = signal.getitimer(signal.ITIMER_PROF)[0]
        finally:
            self._is_running = False  # once more: the alarm may have rung before the first was reached
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _ring(self, number: int, frame: Any) -> None:
        if self._is_running:
            raise CpuBudgetError
