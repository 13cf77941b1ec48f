"""How a run ends early: errors for users, exit codes, and signals that stop it at a safe point."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any


class RunStoppedError(RuntimeError):
    """A run was stopped on purpose. Its text is for people: what was wrong, the numbers, the way out."""


class SamplingStoppedError(RuntimeError):
    """A signal or a full disk ended a sampling job early. The text says how far it is and how it goes on."""


# Codes with which a program ends, for schedulers and scripts. 0: finished. 1: an error, or Ctrl-C.
REQUEUE = 75
"""SIGTERM or SIGUSR1 stopped the run at a safe point and a checkpoint is there: the same command with ``ckpt=last``
continues. EX_TEMPFAIL of ``sysexits.h``."""
STALLED = 76
"""The engine hung, so the process ended itself; as after a kill, the last checkpoint is there."""


class StopSignals:
    """The first signal is noted and acted on where :meth:`check` is called; the same once more stops at once.

    So does Ctrl-C after any of them. Another signal is the same wish again: SLURM sends SIGUSR1 ahead of a time limit
    and SIGTERM at it, and what was begun after the first must not be lost to the second.

    Args:
        cost_of_force: what a second signal costs, for the notice that the first one prints.
        numbers: signals that are taken.
    """

    def __init__(self, cost_of_force: str, numbers: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)) -> None:
        self.received: signal.Signals | None = None
        self.is_forced = False
        self.echo_s = 0.0
        """Seconds in which a second signal is the echo of the first: launchers pass on what a terminal sends to all."""
        self._received_at = 0.0
        self._seen: set[int] = set()
        self._cost_of_force = cost_of_force
        self._numbers = tuple(numbers)
        self._previous: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """Take the signals over. Only the main thread may."""
        for number in self._numbers:
            if (previous := signal.signal(number, self._on_signal)) != self._on_signal:
                self._previous.setdefault(number, previous)

    def restore(self) -> None:
        """Give the signals back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def check(self) -> None:
        """Stop here if a signal arrived.

        Raises:
            KeyboardInterrupt: one did.
        """
        if self.received is not None and not self.is_forced:
            raise KeyboardInterrupt(self.received.name)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            is_first_of_its_kind = number not in self._seen and number != signal.SIGINT
            self._seen.add(number)
            if is_first_of_its_kind or time.monotonic() - self._received_at < self.echo_s:
                return
            self.is_forced = True
            raise KeyboardInterrupt(signal.Signals(number).name)
        self._seen.add(number)
        self.received, self._received_at = signal.Signals(number), time.monotonic()
        print(
            f"\n{self.received.name}: stopping at the next safe point; another one stops now, {self._cost_of_force}",
            file=sys.stderr,
            flush=True,
        )
