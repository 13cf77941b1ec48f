"""Steps that are sampled beside the trainer, one after another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Event
from typing import Protocol

from ada_lightning.core.step import Step
from ada_lightning.rollout.phase_clock import PhaseClock

_WAIT_S = 0.2
"""How long an interrupt may wait for a step."""


class Sample(Protocol):
    """Samples a step, or waits until somebody has."""

    def __call__(self, *, clock: PhaseClock, interrupt_check: Callable[[], None]) -> Step:
        """Return the complete step; ``interrupt_check`` is called meanwhile and may raise."""
        ...


class StoppedSamplingError(RuntimeError):
    """The thread was told to stop, or an earlier step of it has failed."""


class SamplingThread:
    """Samples steps in the order in which they were started.

    Nothing of a step may touch what the trainer does meanwhile: neither its generators, nor its clock, nor what its
    parts have learned. A step that fails ends the thread, and whoever waits for it hears of it.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "sampling")
        self._is_over = Event()

    def start(self, sample: Sample) -> Sample:
        """Have a step sampled after those that were started before; return what waits for it."""
        own_clock = PhaseClock()
        return partial(waited_for, self._executor.submit(self._run, sample, own_clock), own_clock)

    def close(self) -> None:
        """Stop within an engine step, and leave nothing in flight. Safe to call twice."""
        self._is_over.set()
        self._executor.shutdown(cancel_futures=True)

    def _run(self, sample: Sample, clock: PhaseClock) -> Step:
        try:
            self._check()
            return sample(clock=clock, interrupt_check=self._check)
        except BaseException:
            self._is_over.set()
            raise

    def _check(self) -> None:
        if self._is_over.is_set():
            raise StoppedSamplingError("no further step is sampled")


def waited_for(
    future: Future[Step], own_clock: PhaseClock, *, clock: PhaseClock, interrupt_check: Callable[[], None]
) -> Step:
    """Return a step that somebody else samples, whose own clock hears of its progress."""
    with clock.phase("rollout"):
        while not wait([future], _WAIT_S).done:
            interrupt_check()
            clock.report(own_clock.last_event.done, own_clock.last_event.total)
    return future.result()
