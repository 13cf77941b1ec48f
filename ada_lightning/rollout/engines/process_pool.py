"""Engines in processes of their own on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from ada_lightning.core.options import option
from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.rollout.engines.engine_loop import Command, Event
from ada_lightning.rollout.engines.engine_pool import EnginePool
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.pool_place import PoolHost, PoolMember, PoolPlace, engine_environment
from ada_lightning.rollout.engines.published_weights import HostBuffer, PublishedWeights, SharedWeights, on_cpu
from ada_lightning.run.machine import num_cores

if TYPE_CHECKING:
    from torch import Tensor

_END_WAIT_S = 5.0


@option("rollout/host", "process", environment={})
@dataclass(frozen=True, kw_only=True)
class ProcessPool(PoolHost):
    """Engines in processes of their own on this machine.

    Opens an :class:`~ada_lightning.rollout.engines.engine_pool.EnginePool` of child processes.

    A child decodes token after token without being asked and sends what finished, so a poll is a look into a socket. It
    inherits nothing of ``torchrun``, ignores Ctrl-C, and ends with this process whatever it is doing. Each has an equal
    share of the cores.

    Weights are put once, in the engine's own type, into memory that all children see, and stay there while one may need
    them: an engine that replaces another reads them from it.

    Args:
        num_threads: CPU threads of each engine; 0: its share of all cores.

    Raises:
        ValueError: a number is out of range; all in one message.
    """

    num_threads: int = 0

    def _errors(self) -> list[str]:
        wrong = [f"num_threads must be 0 (a share of all cores) or positive; got {self.num_threads}"]
        return super()._errors() + (wrong if self.num_threads < 0 else [])

    def check(self) -> None:
        """Compare several engines with the cores of this machine.

        Raises:
            ValueError: there are fewer cores than the engines need.
        """
        needed = self.num_engines * max(1, self.num_threads)
        if self.num_engines > 1 and needed > num_cores():
            raise ValueError(
                f"rollout.host.num_engines = {self.num_engines} with rollout.host.num_threads = {self.num_threads} "
                f"needs {needed} cores, and this machine gives {num_cores()}; use fewer engines, or rollout=ray to "
                "spread them over machines"
            )

    def open(self, engine: Callable[..., RolloutEngine], log_file: Path) -> RolloutEngine:
        """Start the processes and wait until their engines are open.

        Several engines write into ``engine-0.log`` and so on next to ``log_file``.

        Raises:
            EngineError: one did not start.
        """
        return EnginePool(_ProcessPlace(self, engine, log_file), self)


class _ProcessMember(PoolMember):
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


class _ProcessPlace(PoolPlace):
    """This machine."""

    def __init__(self, host: ProcessPool, engine: Callable[..., RolloutEngine], log_file: Path) -> None:
        self._host, self._engine, self._log_file = host, engine, log_file
        self._memory, self._buffer = SharedWeights(), HostBuffer()

    def open(self, index: int) -> _ProcessMember:
        log_file, cores = self._log_file, list[int]()
        share = max(1, num_cores() // self._host.num_engines)
        if self._host.num_engines > 1:
            log_file = log_file.with_stem(f"{log_file.stem}-{index}")
            if hasattr(os, "sched_getaffinity"):
                cores = sorted(os.sched_getaffinity(0))[index * share : (index + 1) * share]
        return _ProcessMember(
            partial(self._engine, log_file=log_file),
            log_file=log_file,
            cores=cores,
            memory=self._memory.descriptor,
            variables=engine_environment(self._host.num_threads or share, self._host.environment or {}),
        )

    def wait(self, members: Sequence[_ProcessMember], timeout_s: float) -> None:
        connections.wait([member.connection for member in members], timeout_s)

    def publish(
        self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int, weight_dtype: str
    ) -> PublishedWeights:
        tensors, digest = self._memory.write(on_cpu(named_tensors, weight_dtype, self._buffer))
        return PublishedWeights(policy_version, tensors, digest)

    def close(self) -> None:
        self._memory.close()
