"""The main program of a process that holds one engine: ``ProcessPool`` starts it, nobody else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any

from ada_lightning.rewards.worker import Isolation, isolate
from ada_lightning.rollout.engines.engine_loop import Command, EngineLoop, Stop
from ada_lightning.run.importing import importing
from ada_lightning.run.machine import keep_freed_memory

_LARGEST_KEPT_BYTES = 2**29
"""Every sync reads the same tensors again; the embedding of a model of 1.5B has 0.43 GiB in bfloat16."""


def main(trainer_pid: int, connection_fd: int, cores: str, log_file: str) -> None:
    """Serve one engine until told to stop, or until the trainer's process ends.

    Args:
        trainer_pid: process whose end ends this one, whatever the engine is doing.
        connection_fd: socket to the trainer.
        cores: numbers of those that it may use, with commas; empty: those of the trainer.
        log_file: where everything printed goes.
    """
    isolate(Isolation(trainer_pid, None, log_file))
    keep_freed_memory(_LARGEST_KEPT_BYTES)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's to handle
    if cores:  # vLLM binds its threads to the first cores that it may use: engines would share those
        os.sched_setaffinity(0, map(int, cores.split(",")))
    connection = Connection(connection_fd)
    with importing():
        open_engine: Callable[[], Any] = connection.recv()
    commands: SimpleQueue[Command] = SimpleQueue()
    Thread(target=_read, args=(connection, commands), daemon=True).start()
    EngineLoop(open_engine, commands, connection.send).run()


def _read(connection: Connection, commands: SimpleQueue[Command]) -> None:
    """Read all the time, so that the trainer never waits for an engine step to hand something over."""
    command: Command | None = None
    while not isinstance(command, Stop):
        try:
            command = connection.recv()
        except (EOFError, OSError):
            os._exit(0)  # the trainer closed its end: there is nobody to work for
        commands.put(command)


if __name__ == "__main__":
    from ada_lightning.rollout.engines.engine_process import main as imported_main  # classes of messages exist once

    imported_main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
