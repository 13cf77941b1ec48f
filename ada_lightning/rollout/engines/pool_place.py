"""Where the engines of a pool run: how they start, with which variables, how many there are, and time limits."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ada_lightning.core.checks import refuse
from ada_lightning.rollout.engines.engine_loop import ALIVE_INTERVAL_S, Command, Event
from ada_lightning.rollout.engines.host import EngineHost
from ada_lightning.rollout.engines.published_weights import PublishedWeights
from ada_lightning.run.machine import num_cores

if TYPE_CHECKING:
    from torch import Tensor


class PoolMember(Protocol):
    """An engine that works by itself (:class:`~ada_lightning.rollout.engines.engine_loop.EngineLoop`).

    No call waits for it.
    """

    log_file: Path
    """What it prints; on its own machine."""

    def send(self, command: Command) -> None:
        """Hand a command over, after those before it; EngineError where the engine is gone."""

    def events(self) -> list[Event]:
        """Take what has come, in its order; EngineError where nothing has and the engine is gone."""
        ...

    def close(self, wait_s: float = 0.0) -> None:
        """End it, by force where it has not ended by itself after so many seconds. Safe to call twice."""


class PoolPlace(Protocol):
    """Where the members of a pool live."""

    def open(self, index: int) -> PoolMember:
        """Begin to start a member, or another of its index; its first event is ``Ready``, or EngineError is raised."""
        ...

    def wait(self, members: Sequence[Any], timeout_s: float) -> None:
        """Return as soon as one of its members has events or is gone, or when the time is over."""

    def publish(
        self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int, weight_dtype: str
    ) -> PublishedWeights:
        """Put weights, which are read once, where every member can read them; in this type, if any.

        They stay there as long as somebody holds what is returned.
        """
        ...

    def close(self) -> None:
        """Give everything back, after all members are closed. Safe to call twice."""


@dataclass(frozen=True, kw_only=True)
class PoolHost(EngineHost):
    """Limits of a pool, wherever its engines live.

    Args:
        num_engines: how many.
        max_restarts: replacements of one engine between two syncs before it is left out.
        affinity: requests by which an engine may exceed the least loaded one to get another of its own prompts.
        start_timeout_s: seconds until an engine must be open; compiling on a GPU takes minutes.
        call_timeout_s: seconds without any progress after which an engine counts as hanging and is replaced.
        environment: further variables of the engines' processes, such as ``CUDA_VISIBLE_DEVICES``.

    Raises:
        ValueError: a number is out of range; all in one message.
    """

    works_by_itself: ClassVar[bool] = True
    num_engines: int = 1
    max_restarts: int = 2
    affinity: int = 4
    start_timeout_s: float = 600.0
    call_timeout_s: float = 300.0
    environment: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        refuse(*(f"rollout.host.{error}" for error in self._errors()))

    def _errors(self) -> list[str]:
        """Say what is wrong, by the keys that a user types."""
        bounds = [("num_engines", 1, "at least 1"), ("max_restarts", 0, "0 or more"), ("affinity", 0, "0 or more")]
        errors = [
            f"{name} must be {bound}; got {getattr(self, name)}"
            for name, least, bound in bounds
            if getattr(self, name) < least
        ]
        errors += [
            f"{name} must be a positive number of seconds; got {getattr(self, name)}"
            for name in ("start_timeout_s", "call_timeout_s")
            if not 0 < getattr(self, name) < float("inf")
        ]
        if 0 < self.call_timeout_s < 2 * ALIVE_INTERVAL_S:
            errors.append(
                f"call_timeout_s = {self.call_timeout_s} is too short: a working engine says so every "
                f"{ALIVE_INTERVAL_S:g} s; use {2 * ALIVE_INTERVAL_S:g} or more"
            )
        return errors


# fmt: off
_OF_THE_TRAINER = frozenset(
    (
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
        "ROLE_NAME", "ROLE_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "PL_GLOBAL_SEED",
        "LD_PRELOAD", "KMP_AFFINITY",  # vLLM writes these two in the process it runs in, for its own workers
    )
)
"""Who the trainer is among the training processes, which vLLM would take for its own place, and vLLM's own traces."""
# fmt: on


def engine_environment(num_threads: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment without what belongs to the trainer.

    Args:
        num_threads: CPU threads of the engine; 0: all cores. torch reads them once, at import, and torchrun sets one.
        environment: further variables, which overrule the rest.
    """
    return {
        **{name: value for name, value in os.environ.items() if not _is_of_the_trainer(name)},
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "OMP_NUM_THREADS": str(num_threads or num_cores()),
        **{str(name): str(value) for name, value in environment.items()},
    }


def enter_engine_environment(num_threads: int, environment: Mapping[str, str]) -> None:
    """Make :func:`engine_environment` that of this process, which somebody else started, before torch is imported."""
    variables = engine_environment(num_threads, environment)
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)


def _is_of_the_trainer(name: str) -> bool:
    return name in _OF_THE_TRAINER or name.startswith("TORCHELASTIC_")
