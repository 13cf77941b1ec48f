"""Starts, watches and replaces the engine of a run."""

from __future__ import annotations

import gc
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from ada_lightning.core.protocols import RolloutEngine, VersionedEngine
from ada_lightning.rollout.engines.errors import EngineError, guarded
from ada_lightning.rollout.engines.host import EngineHost
from ada_lightning.rollout.engines.time_limit import TimeLimit
from ada_lightning.run.phase_clock import PhaseClock

if TYPE_CHECKING:
    from torch import Tensor

    from ada_lightning.training.readable_policy import ReadablePolicy

_TURN_WAIT_S = 0.2


class EngineSupervisor:
    """Opened once, given weights once per policy version, replaced when it breaks.

    Args:
        factory: as :class:`~ada_lightning.rollout.service.RolloutService` has it.
        host: where the engine lives.
        max_restarts: replacements in a row.
        stall_limit_s: seconds for one call of the engine.
        start_limit_s: seconds for its start.

    Raises:
        ValueError: a limit is not positive.
    """

    def __init__(
        self,
        factory: Callable[..., RolloutEngine],
        host: EngineHost,
        *,
        max_restarts: int,
        stall_limit_s: float,
        start_limit_s: float,
    ) -> None:
        self._factory = factory
        self._host = host
        self._max_restarts = max_restarts
        self._time_limit = TimeLimit(
            stall_limit_s=stall_limit_s, start_limit_s=start_limit_s, report_file=Path("stalled.txt")
        )
        self.weight_dtype = ""
        """Type that it wants weights in, once it is open."""
        self.takes_adapters = False
        """Whether it wants a policy's adapters alone."""
        self.takes_drafts = False
        """Whether a guess at a response makes it faster."""
        self.max_num_seqs = 0
        """Sequences at once, once it is open."""
        self.serves_versions = False
        """Whether it samples from several policy versions at once."""
        self.loaded_version: int | None = None
        """Policy version of its weights; None: those it was opened with, or none."""
        self._open: Callable[[], RolloutEngine] | None = None
        self._engine: RolloutEngine | None = None
        self._num_restarts = 0
        self._turn = Lock()
        self._waiting: deque[None] = deque()
        """One for each that waits for a turn: threads append and pop safely, where a count could lose one."""

    def check(self) -> None:
        """Raise ValueError for what is wrong with the engine's place or arguments, before a model loads."""
        self._host.check()
        factory = self._factory
        if isinstance(factory, partial) and callable(check := getattr(factory.func, "check_arguments", None)):
            check(**factory.keywords)

    @property
    def works_by_itself(self) -> bool:
        """Whether it decodes while this process does something else."""
        return self._host.works_by_itself

    def open(self, log_file: Path, **arguments: Any) -> None:
        """Start it, completed with ``arguments``.

        Raises:
            EngineError: it did not start.
            ValueError: it was asked for something that it cannot do.
        """
        engine = partial(self._factory, **arguments)
        self._open = lambda: self._host.open(engine, log_file)
        self._time_limit.report_file = log_file.with_name("stalled.txt")
        try:
            self._engine = self._started()
        except (EngineError, ValueError):
            raise
        except Exception as error:
            raise EngineError(f"it did not start: {type(error).__name__}: {error}") from error
        self.loaded_version = None
        self.weight_dtype, self.takes_adapters = self._engine.weight_dtype, self._engine.takes_adapters
        self.takes_drafts, self.max_num_seqs = self._engine.takes_drafts, self._engine.max_num_seqs
        self.serves_versions = isinstance(self._engine, VersionedEngine) and self._engine.serves_versions

    def opened(self) -> RolloutEngine:
        """Return the engine, a new one where the last one was given up. Nobody keeps it.

        Raises:
            EngineError: the new one did not start.
            RuntimeError: :meth:`open` was not called.
        """
        if self._open is None:
            raise RuntimeError("the rollout service is not open")
        if self._engine is None:
            gc.collect()  # a step that broke off refers to itself and to its engine, whose memory the next one needs
            try:
                self._engine = self._started()
            except Exception as error:
                raise EngineError(f"restart failed: {type(error).__name__}: {error}") from error
        return self._engine

    @contextmanager
    def turn(self, clock: PhaseClock, interrupt_check: Callable[[], None]) -> Iterator[None]:
        """Wait for whoever samples with it."""
        if not self._turn.acquire(blocking=False):
            self._waiting.append(None)
            try:
                with clock.phase("rollout"):
                    while not self._turn.acquire(timeout=_TURN_WAIT_S):
                        interrupt_check()
            finally:
                self._waiting.pop()
        try:
            yield
        finally:
            self._turn.release()

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for a turn: who has it should begin nothing new."""
        return bool(self._waiting)

    def publish(
        self,
        policy_version: int,
        weights: Callable[[], Iterable[tuple[str, Tensor]]],
        *,
        needed: Collection[int],
        clock: PhaseClock,
    ) -> None:
        """Give this version to an engine that serves several, unless it has it; the ones that are needed stay.

        Raises:
            EngineError: the engine broke.
        """
        engine = self.opened()
        assert isinstance(engine, VersionedEngine)
        self.loaded_version = None  # its engines may differ
        if policy_version not in engine.versions:
            with clock.phase("sync"):
                _hand_over(engine.publish, weights(), policy_version)
        guarded(engine.keep, {policy_version, *needed})

    def weights_of(self, policy: ReadablePolicy) -> Callable[[], Iterator[tuple[str, Tensor]]]:
        """Return what gives a policy's named weights as they are then: all, or the adapters that an engine wants."""
        return lambda: policy.engine_weights(adapters_only=self.takes_adapters)

    def sync(self, policy_version: int, weights: Callable[[], Iterable[tuple[str, Tensor]]], clock: PhaseClock) -> None:
        """Load a version unless it is there."""
        if self.loaded_version != policy_version:
            with clock.phase("sync"):
                _hand_over(self.opened().load_weights, weights(), policy_version)
            self.loaded_version = policy_version

    def rest(self) -> None:
        """Have it give memory back as its ``sleep_level`` says."""
        engine = self.opened()
        if engine.sleep_level and not guarded(engine.sleep):  # weights that are gone are loaded again before use
            self.loaded_version = None

    def give_up(self, error: EngineError, num_in_a_row: int) -> None:
        """Let :meth:`opened` start another one, unless so many have broken in a row.

        Raises:
            EngineError: ``error``; there have been more than ``max_restarts``.
        """
        if num_in_a_row > self._max_restarts:
            raise error
        self._num_restarts += 1
        warnings.warn(f"the engine broke ({error}); restarting it", RuntimeWarning, stacklevel=3)
        self._discard()

    @property
    def num_restarts(self) -> int:
        """Engines replaced so far, here and within a pool."""
        engine = self._engine  # a step that is sampled while the trainer works may discard it now
        return self._num_restarts + (engine.num_restarts if engine else 0)

    def close(self) -> None:
        """Stop it. Safe to call twice."""
        self._discard()
        self._open = None
        self._time_limit.close()

    def _started(self) -> RolloutEngine:
        """Start an engine whose calls must end."""
        assert self._open is not None
        with self._time_limit.watch("start", "start_limit_s"):
            return self._time_limit.engine(self._open())

    def _discard(self) -> None:
        engine, self._engine, self.loaded_version = self._engine, None, None
        if engine is None:
            return
        self._num_restarts += engine.num_restarts
        try:
            engine.close()
        except Exception as error:
            warnings.warn(f"the engine did not close cleanly: {error}", RuntimeWarning, stacklevel=2)


def _hand_over(take: Callable[..., None], weights: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
    """Have an engine take weights. What goes wrong with reading these is no fault of the engine's.

    Raises:
        EngineError: the engine broke.
        Exception: whatever reading raised, as when a training process that has a part of them is gone.
    """
    failures: list[Exception] = []

    def read() -> Iterator[tuple[str, Tensor]]:
        try:
            yield from weights
        except Exception as error:
            failures.append(error)
            raise

    try:
        guarded(take, read(), policy_version)
    except EngineError:
        if failures:
            raise failures[0] from None
        raise
