"""The place of an engine that has a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.rollout.engines.engine_loop import ALIVE_INTERVAL_S
from ada_lightning.rollout.engines.process_engine import ProcessEngine


class OwnProcess:
    """Opens a :class:`~ada_lightning.rollout.engines.process_engine.ProcessEngine`: an ``EngineHost``.

    Args:
        start_timeout_s: seconds until the engine must be open; compiling on a GPU takes minutes.
        call_timeout_s: seconds without any progress after which it is killed and replaced.
        num_threads: CPU threads of the engine; 0: all cores.
        environment: further variables of its process, such as ``CUDA_VISIBLE_DEVICES``.

    Raises:
        ValueError: a number is out of range.
    """

    def __init__(
        self,
        *,
        start_timeout_s: float = 600.0,
        call_timeout_s: float = 300.0,
        num_threads: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        for name, value in (("start_timeout_s", start_timeout_s), ("call_timeout_s", call_timeout_s)):
            if not 0 < value < float("inf"):
                raise ValueError(f"rollout.host.{name} must be a positive number of seconds; got {value}")
        if call_timeout_s < 2 * ALIVE_INTERVAL_S:
            raise ValueError(
                f"rollout.host.call_timeout_s = {call_timeout_s} is too short: a working engine says so every "
                f"{ALIVE_INTERVAL_S:g} s; use {2 * ALIVE_INTERVAL_S:g} or more"
            )
        if num_threads < 0:
            raise ValueError(f"rollout.host.num_threads must be 0 (all cores) or positive; got {num_threads}")
        self._start_timeout_s = start_timeout_s
        self._call_timeout_s = call_timeout_s
        self._num_threads = num_threads
        self._environment = dict(environment or {})

    def open(self, engine: Callable[..., RolloutEngine], log_file: Path) -> RolloutEngine:
        """Start the process and wait until its engine is open.

        Raises:
            EngineError: it did not start.
        """
        return ProcessEngine(
            partial(engine, log_file=log_file),
            log_file=log_file,
            start_timeout_s=self._start_timeout_s,
            call_timeout_s=self._call_timeout_s,
            num_threads=self._num_threads,
            environment=self._environment,
        )
