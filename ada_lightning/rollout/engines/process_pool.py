"""Engines in processes of their own on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.rollout.engines.engine_environment import engine_environment
from ada_lightning.rollout.engines.engine_messages import Command, Event
from ada_lightning.rollout.engines.engine_pool import EnginePool, limit_errors
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.pool_member import PoolMember, PublishedWeights
from ada_lightning.rollout.engines.shared_weights import SharedWeights, in_engine_type, on_cpu
from ada_lightning.run.cores import num_cores

if TYPE_CHECKING:
    from torch import Tensor

_END_WAIT_S = 5.0


class ProcessPool:
    """Opens an :class:`~ada_lightning.rollout.engines.engine_pool.EnginePool` of child processes: an ``EngineHost``.

    A child decodes token after token without being asked and sends what finished, so a poll is a look into a socket. It
    inherits nothing of ``torchrun``, ignores Ctrl-C, and ends with this process whatever it is doing.

    Weights are put once, in the engine's own type, into memory that all children see, and stay there until the next
    sync: an engine that replaces another reads them from it.

    Args:
        num_engines: processes, each with an engine of its own and an equal share of the cores.
        max_restarts: replacements of one engine between two syncs before it is left out.
        affinity: requests by which an engine may exceed the least loaded one to get another of its own prompts.
        start_timeout_s: seconds until an engine must be open; compiling on a GPU takes minutes.
        call_timeout_s: seconds without any progress after which an engine is killed and replaced.
        num_threads: CPU threads of each engine; 0: its share of all cores.
        environment: further variables of the processes, such as ``CUDA_VISIBLE_DEVICES``.

    Raises:
        ValueError: a number is out of range; all in one message.
    """

    def __init__(
        self,
        *,
        num_engines: int = 1,
        max_restarts: int = 2,
        affinity: int = 4,
        start_timeout_s: float = 600.0,
        call_timeout_s: float = 300.0,
        num_threads: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._limits: dict[str, Any] = {
            "num_engines": num_engines,
            "max_restarts": max_restarts,
            "affinity": affinity,
            "start_timeout_s": start_timeout_s,
            "call_timeout_s": call_timeout_s,
        }
        errors = limit_errors(**self._limits)
        if num_threads < 0:
            errors.append(f"rollout.host.num_threads must be 0 (a share of all cores) or positive; got {num_threads}")
        if errors:
            raise ValueError("; ".join(errors))
        self._num_engines = num_engines
        self._num_threads = num_threads
        self._environment = dict(environment or {})

    def check(self) -> None:
        """Compare several engines with the cores of this machine.

        Raises:
            ValueError: there are fewer cores than the engines need.
        """
        needed = self._num_engines * max(1, self._num_threads)
        if self._num_engines > 1 and needed > num_cores():
            raise ValueError(
                f"rollout.host.num_engines = {self._num_engines} with rollout.host.num_threads = {self._num_threads} "
                f"needs {needed} cores, and this machine gives {num_cores()}; use fewer engines, or rollout=ray to "
                "spread them over machines"
            )

    def open(self, engine: Callable[..., RolloutEngine], log_file: Path) -> RolloutEngine:
        """Start the processes and wait until their engines are open.

        Several engines write into ``engine-0.log`` and so on beside ``log_file``.

        Raises:
            EngineError: one did not start.
        """
        place = _ProcessPlace(engine, log_file, self._num_engines, self._num_threads, self._environment)
        return EnginePool(place, **self._limits)


class _ProcessMember:
    """One child process."""

    def __init__(
        self,
        open_engine: Callable[[], RolloutEngine],
        *,
        log_file: Path,
        cores: Sequence[int],
        memory: int,
        variables: Mapping[str, str],
    ) -> None:
        self.log_file = log_file
        log_file.parent.mkdir(parents=True, exist_ok=True)
        ours, theirs = socket.socketpair()
        arguments = map(str, (os.getpid(), theirs.fileno(), ",".join(map(str, cores)), log_file.absolute()))
        with theirs, log_file.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ada_lightning.rollout.engines.engine_process", *arguments],
                pass_fds=(theirs.fileno(), memory),
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.connection = Connection(ours.detach())
        self.connection.send(open_engine)

    def send(self, command: Command) -> None:
        """Hand a command over."""
        try:
            self.connection.send(command)
        except OSError:
            raise EngineError(self._how_it_ended()) from None

    def events(self) -> list[Event]:
        """Take what has come; the end of the process only after what it said before."""
        found: list[Event] = []
        try:
            while self.connection.poll():
                found.append(self.connection.recv())
        except (EOFError, OSError):
            if not found:
                raise EngineError(self._how_it_ended()) from None
        return found

    def close(self, wait_s: float = 0.0) -> None:
        """Kill the process and whatever it started."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(wait_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.connection.close()

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(_END_WAIT_S)
        except subprocess.TimeoutExpired:
            return "it closed its end and does not end"
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"it left with code {code}"


class _ProcessPlace:
    """A :class:`~ada_lightning.rollout.engines.pool_member.PoolPlace` on this machine."""

    def __init__(
        self,
        engine: Callable[..., RolloutEngine],
        log_file: Path,
        num_engines: int,
        num_threads: int,
        environment: Mapping[str, str],
    ) -> None:
        self._engine = engine
        self._log_file = log_file
        self._num_engines = num_engines
        self._num_threads = num_threads
        self._environment = environment
        self._memory = SharedWeights()

    def open(self, index: int) -> _ProcessMember:
        """Start a process."""
        log_file, cores = self._log_file, list[int]()
        share = max(1, num_cores() // self._num_engines)
        if self._num_engines > 1:
            log_file = log_file.with_stem(f"{log_file.stem}-{index}")
            if hasattr(os, "sched_getaffinity"):
                cores = sorted(os.sched_getaffinity(0))[index * share : (index + 1) * share]
        return _ProcessMember(
            partial(self._engine, log_file=log_file),
            log_file=log_file,
            cores=cores,
            memory=self._memory.descriptor,
            variables=engine_environment(self._num_threads or share, self._environment),
        )

    def wait(self, members: Sequence[PoolMember], timeout_s: float) -> None:
        """Wait for a first message, or the end of a process."""
        connections.wait([m.connection for m in members if isinstance(m, _ProcessMember)], timeout_s)

    def publish(
        self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int, weight_dtype: str
    ) -> PublishedWeights:
        """Put weights into the shared memory, where they stay until the next."""
        tensors, digest = self._memory.write(on_cpu(in_engine_type(named_tensors, weight_dtype)))
        return PublishedWeights(policy_version, tensors, digest)

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()
