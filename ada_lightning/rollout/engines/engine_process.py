"""The main program of a process that holds one engine: ``ProcessEngine`` starts it, nobody else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from ada_lightning.rewards.isolation import Isolation, isolate
from ada_lightning.rollout.engines.engine_loop import EngineLoop
from ada_lightning.rollout.engines.engine_messages import Command, Load, Stop

if TYPE_CHECKING:
    from torch import Tensor

    from ada_lightning.rollout.engines.shared_weights import SharedTensor


@dataclass(frozen=True, slots=True)
class BeginLoad:
    """Tensors of a policy version follow."""

    policy_version: int


@dataclass(frozen=True, slots=True)
class TensorThere:
    """One tensor stands in the shared memory."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class TensorTaken:
    """The shared memory is free again."""


@dataclass(frozen=True, slots=True)
class EndLoad:
    """No further tensor follows."""


def main(trainer_pid: int, connection_fd: int, memory_fd: int, log_file: str) -> None:
    """Serve one engine until told to stop, or until the trainer's process ends.

    Args:
        trainer_pid: process whose end ends this one, whatever the engine is doing.
        connection_fd: socket to the trainer.
        memory_fd: of the memory that weights come through.
        log_file: where everything printed goes.
    """
    isolate(Isolation(trainer_pid, None, log_file))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's to handle
    connection = Connection(connection_fd)
    open_engine: Callable[[], Any] = connection.recv()

    from ada_lightning.rollout.engines.shared_weights import SharedTensor

    commands: SimpleQueue[Command] = SimpleQueue()
    tensors: SimpleQueue[TensorThere | EndLoad] = SimpleQueue()
    arriving = _ArrivingTensors(SharedTensor(memory_fd), tensors, connection)
    Thread(target=_sort_messages, args=(connection, commands, tensors, arriving), daemon=True).start()
    EngineLoop(open_engine, commands, connection.send).run()


class _ArrivingTensors:
    """Tensors in the order in which the trainer sends them, each copied out of the shared memory."""

    def __init__(
        self, memory: SharedTensor, tensors: SimpleQueue[TensorThere | EndLoad], connection: Connection
    ) -> None:
        self._memory = memory
        self._tensors = tensors
        self._connection = connection

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        import torch

        while isinstance(there := self._tensors.get(), TensorThere):
            tensor = self._memory.read(there.shape, getattr(torch, there.dtype))
            self._connection.send(TensorTaken())  # the trainer prepares the next while the engine loads this one
            yield there.name, tensor


def _sort_messages(
    connection: Connection,
    commands: SimpleQueue[Command],
    tensors: SimpleQueue[TensorThere | EndLoad],
    arriving: _ArrivingTensors,
) -> None:
    """Read all the time, so that the trainer never waits for an engine step to hand something over."""
    while True:
        try:
            message = connection.recv()
        except (EOFError, OSError):
            os._exit(0)  # the trainer closed its end: there is nobody to work for
        if isinstance(message, TensorThere | EndLoad):
            tensors.put(message)
        elif isinstance(message, BeginLoad):
            commands.put(Load(message.policy_version, arriving))
        else:
            commands.put(message)
            if isinstance(message, Stop):
                return


if __name__ == "__main__":
    from ada_lightning.rollout.engines.engine_process import main as imported_main  # classes of messages exist once

    imported_main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
