"""Two processes that stay alive and run functions together, as torchrun would have started them."""

from __future__ import annotations

import faulthandler
import importlib
import multiprocessing
import os
import socket
import sys
import traceback

NUM_PROCESSES = 2


class Pair:
    """Runs a function in every process at once and returns what each returned."""

    def __init__(self, num_processes=NUM_PROCESSES):
        context = multiprocessing.get_context("spawn")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.pipes, self.processes = [], []
        for rank in range(num_processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(rank, num_processes, port, theirs), daemon=True)
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)

    def run(self, function, timeout_s=240, **arguments):
        for pipe in self.pipes:
            pipe.send((function.__module__, function.__qualname__, arguments, timeout_s / 2))
        outcomes = []
        for rank, pipe in enumerate(self.pipes):
            if not pipe.poll(timeout_s):
                raise TimeoutError(f"rank {rank} does not return from {function.__name__}")
            outcomes.append(pipe.recv())
        failures = [f"rank {rank}:\n{text}" for rank, (is_well, text) in enumerate(outcomes) if not is_well]
        if failures:
            raise AssertionError("\n".join(failures))
        return [result for _, result in outcomes]

    def close(self):
        for process in self.processes:
            process.kill()
            process.join()


def _serve(rank, num_processes, port, pipe):
    os.environ |= {
        "TORCHELASTIC_RUN_ID": "pair",
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(num_processes),
        "LOCAL_WORLD_SIZE": str(num_processes),
        "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    while True:
        module, name, arguments, patience_s = pipe.recv()
        faulthandler.dump_traceback_later(patience_s)  # a hang shows where
        try:
            pipe.send((True, getattr(importlib.import_module(module), name)(**arguments)))
        except BaseException as error:
            sys.stdout.flush()
            text = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
            pipe.send((False, text))
        faulthandler.cancel_dump_traceback_later()
