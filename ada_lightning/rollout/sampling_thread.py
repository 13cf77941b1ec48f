"""Steps that are sampled while the trainer works.

Which step is sampled by which policy version, from which prompts and with which seeds, is decided before; when it is
sampled changes none of it. An engine that has one version samples one step after another. Engines of a pool go over to
a new version one after another, so that what is left of an older step keeps some of them busy, and the next step the
others.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat, starmap
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING, Protocol

from ada_lightning.core.records import ResponsePool
from ada_lightning.core.step import Step
from ada_lightning.rollout.driver import Driver
from ada_lightning.rollout.engine_supervisor import EngineSupervisor
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.probe import Probe
from ada_lightning.run.phase_clock import PhaseClock

if TYPE_CHECKING:
    from torch import Tensor

_WAIT_S = 0.02
"""How often to look whether the engine is still wanted for something else."""
_INTERRUPT_WAIT_S = 0.2
"""How long an interrupt may wait for a step."""


class Sample(Protocol):
    """Samples a step, or waits until somebody has."""

    def __call__(self, *, clock: PhaseClock, interrupt_check: Callable[[], None]) -> Step:
        """Return the complete step; ``interrupt_check`` is called meanwhile and may raise."""
        ...


class StoppedSamplingError(RuntimeError):
    """The thread was told to stop, or an earlier step of it has failed."""


@dataclass(frozen=True, slots=True, eq=False)
class _Started:
    begin: Callable[[], Step]
    weights: Callable[[], Iterable[tuple[str, Tensor]]]
    policy_version: int
    probe: Probe | None
    ended: Callable[[ResponsePool], object]
    result: Future[Step] = field(default_factory=Future)
    clock: PhaseClock = field(default_factory=PhaseClock)


class SamplingThread:
    """Samples steps in the order in which they were started.

    Where the engine serves several versions, younger steps are sampled in the slots that older ones leave. Nothing of
    a step may touch what the trainer does meanwhile: neither its generators, nor its clock, nor what its parts have
    learned. Who wants the engine for something else gets it as soon as the steps that are open are complete. An engine
    that breaks is replaced, and what was in flight is drawn again. A step that fails ends the thread, and whoever waits
    for one hears of it.

    Args:
        engine: which works by itself.
        driver: makes what drives steps; called with further arguments of :class:`~ada_lightning.rollout.driver.Driver`.
        check: called with every complete step; may raise.
    """

    def __init__(
        self,
        engine: EngineSupervisor,
        driver: Callable[..., Driver],
        check: Callable[[Step], object] = lambda step: None,
    ) -> None:
        self._engine, self._driver, self._check_step = engine, driver, check
        self._queue: deque[_Started] = deque()
        self._open: dict[Step, tuple[_Started, float]] = {}
        """By step: what was asked, and when it was opened."""
        self._changed = Condition()
        self._is_over = Event()
        self._clock = PhaseClock()
        self._thread = Thread(target=self._work, name="sampling", daemon=True)
        self._thread.start()

    def start(
        self,
        begin: Callable[[], Step],
        *,
        weights: Callable[[], Iterable[tuple[str, Tensor]]],
        policy_version: int,
        probe: Probe | None,
        ended: Callable[[ResponsePool], object],
    ) -> Sample:
        """Have a step sampled; arguments as of :meth:`~ada_lightning.rollout.service.RolloutService.start`.

        Returns:
            What waits for it.
        """
        started = _Started(begin, weights, policy_version, probe, ended)
        with self._changed:
            if self._is_over.is_set():
                started.result.set_exception(StoppedSamplingError("no further step is sampled"))
            self._queue.append(started)
            self._changed.notify()
        return partial(_result, started)

    def close(self) -> None:
        """Stop within an engine step, and leave nothing in flight. Safe to call twice."""
        with self._changed:
            self._is_over.set()
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        try:
            while self._is_asked():
                with self._engine.turn(self._clock, self._check):
                    self._sample()
        except BaseException as error:  # whoever waits for a step is told
            with self._changed:
                self._is_over.set()
            failed = [started for started, _ in self._open.values()] or [*self._queue][:1]  # that was to be opened
            self._fail(failed, error)
        with self._changed:
            waiting = [*self._queue]  # whoever asks from here on is told at once
        self._fail(waiting, StoppedSamplingError("no further step is sampled"))

    def _fail(self, started: Iterable[_Started], error: BaseException) -> None:
        for each in started:
            if not each.result.done():
                each.result.set_exception(error)

    def _is_asked(self) -> bool:
        """Wait for a step to sample while nobody else wants the engine; whether there is one."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._is_over.is_set())
                if self._is_over.is_set():
                    return False
            if not self._engine.is_wanted:
                return True
            self._is_over.wait(_WAIT_S)

    def _sample(self) -> None:
        """Sample until no step is open any more."""
        driver = self._driver(
            starmap(self._next_step, repeat(())),  # without end; unlike a generator it outlives an error
            by_version=self._engine.serves_versions,
            probe_of=lambda step: self._open[step][0].probe,
            ended=self._note_ended,
            outlives_engine=True,
            report=self._report,
            interrupt_check=self._check,
        )
        num_broken = 0
        while True:
            try:
                for started, _ in self._open.values():  # with an engine that replaces another
                    self._give_weights(started)
                with closing(driver.run(self._engine.opened())) as complete:
                    for step in complete:
                        num_broken = 0
                        try:
                            self._hand_over(step)
                        except EngineError as error:  # so that the driver asks again for what is lost with it
                            complete.throw(error)
                self._engine.rest()
            except EngineError as error:
                num_broken += 1
                self._engine.give_up(error, num_broken)
            else:
                return

    def _next_step(self) -> Step | None:
        """Open the next step, unless somebody else waits for the engine, or it has to complete one after another."""
        if not self._queue or self._engine.is_wanted or (self._open and not self._engine.serves_versions):
            return None
        started = self._queue[0]
        try:
            self._give_weights(started)
            step = started.begin()
        except EngineError:
            raise
        except BaseException as error:
            started.result.set_exception(error)
            raise
        self._queue.popleft()
        self._open[step] = started, time.monotonic()
        return step

    def _give_weights(self, started: _Started) -> None:
        if not self._engine.serves_versions:
            self._engine.sync(started.policy_version, started.weights, self._clock)
            return
        needed = {each.policy_version for each, _ in self._open.values()}
        self._engine.publish(started.policy_version, started.weights, needed=needed, clock=self._clock)

    def _hand_over(self, step: Step) -> None:
        started, opened_at = self._open[step]
        step.stats.seconds = time.monotonic() - opened_at
        self._check_step(step)
        del self._open[step]
        started.result.set_result(step)  # first: what follows asks the engine, which may be dead by now
        if self._open:  # engines need not wait for more of its version
            self._give_weights(next(iter(self._open.values()))[0])

    def _note_ended(self, pool: ResponsePool) -> None:
        for step, (started, _) in self._open.items():
            if step.step == pool.step:
                started.ended(pool)

    def _report(self) -> None:
        for step, (started, _) in self._open.items():
            started.clock.report(step.stats.num_drawn, step.num_launched)

    def _check(self) -> None:
        if self._is_over.is_set():
            raise StoppedSamplingError("no further step is sampled")


def _result(started: _Started, *, clock: PhaseClock, interrupt_check: Callable[[], None]) -> Step:
    with clock.phase("rollout"):
        while not wait([started.result], _INTERRUPT_WAIT_S).done:
            interrupt_check()
            clock.report(started.clock.last_event.done, started.clock.last_event.total)
    return started.result.result()
