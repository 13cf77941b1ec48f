"""Seconds spent in each phase of a run, and who wants to know about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PhaseEvent:
    """What a progress display needs to know."""

    phase: str
    """``start``, ``preview``, ``rollout``, ``grade``, ``update``, ``sync``, ``eval`` or ``checkpoint``."""
    done: int
    """Finished units of the phase (responses, microbatches)."""
    total: int
    """Expected units, 0 while unknown. May grow: an adaptive sampler decides as it goes."""


class PhaseClock:
    """Times nested phases without counting a second twice: a phase inside another pauses the outer one.

    Example:
        >>> clock = PhaseClock(now=iter([0.0, 1.0, 3.0, 4.0]).__next__)
        >>> with clock.phase("rollout"):
        ...     with clock.phase("sync"):
        ...         pass
        >>> clock.step_seconds()
        {'rollout': 2.0, 'sync': 2.0}
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._stack: list[str] = []
        self._since = 0.0
        self._step: dict[str, float] = {}
        self._total: dict[str, float] = {}
        self._listeners: list[Callable[[PhaseEvent], None]] = []
        self.last_event = PhaseEvent("", 0, 0)
        """For whoever asks now and then, and from another thread, how far it is."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the seconds of the body under ``name``."""
        self._switch(push=name)
        self.report(0, 0)
        try:
            yield
        finally:
            self._switch(push=None)

    def report(self, done: int, total: int) -> None:
        """Tell listeners how far the running phase is."""
        self.last_event = PhaseEvent(self._stack[-1] if self._stack else "", done, total)
        for listener in self._listeners:
            listener(self.last_event)

    def subscribe(self, listener: Callable[[PhaseEvent], None]) -> None:
        """Call ``listener`` with every event, in the trainer's process and thread."""
        self._listeners.append(listener)

    def step_seconds(self) -> dict[str, float]:
        """Seconds by phase since the last :meth:`end_step`."""
        return dict(self._step)

    def total_seconds(self) -> dict[str, float]:
        """Seconds by phase since construction."""
        return dict(self._total)

    def end_step(self) -> None:
        """Start counting the next step."""
        self._step.clear()

    def _switch(self, push: str | None) -> None:
        now = self._now()
        if self._stack:
            running = self._stack[-1]
            self._step[running] = self._step.get(running, 0.0) + now - self._since
            self._total[running] = self._total.get(running, 0.0) + now - self._since
        self._since = now
        if push is None:
            self._stack.pop()
        else:
            self._stack.append(push)
