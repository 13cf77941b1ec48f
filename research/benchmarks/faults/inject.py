"""Faults at chosen moments of a run, each once, whatever the run is resumed for."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch import LightningModule, Trainer

from ada_lightning.callbacks.rollout_listener import RolloutListener

if TYPE_CHECKING:
    from ada_lightning.core.step_records import RolloutResult

DONE_FILE = "faults_done.jsonl"
"""Name in the run folder: a line for each fault that has happened, written before it does."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    The moment is counted within its step: engine polls for what happens in a rollout, microbatches in an update.
    """

    key: int
    step: int
    kind: str
    moment: int = 0


def write_schedule(path: Path, faults: list[Fault]) -> None:
    """Write what :class:`FaultInjector` reads."""
    path.write_text(json.dumps([asdict(fault) for fault in faults], indent=1) + "\n", encoding="utf-8")


def read_schedule(path: Path) -> list[Fault]:
    """Read :func:`write_schedule`."""
    return [Fault(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def read_done(run_dir: Path) -> list[dict[str, Any]]:
    """Return the faults that have happened, in their order."""
    file = run_dir / DONE_FILE
    return [json.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []


class FaultInjector(RolloutListener):
    """Breaks the run it belongs to, by a schedule."""

    def __init__(self, *, run_dir: str | Path, schedule: str | Path) -> None:
        self.run_dir = Path(run_dir)
        self.faults = read_schedule(Path(schedule))
        self._done = {entry["key"] for entry in read_done(self.run_dir)}
        self._policy: Any = None
        self._data: Any = None
        self._num_polls = 0
        self._num_microbatches = 0
        self._step_of_polls = -1

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Put the faults' hooks into the engine, the policy, the checkpoint and MLflow's client."""
        self._policy, self._data = pl_module, trainer.datamodule  # type: ignore[attr-defined]
        self._break_engine()
        self._break_files()
        loss = self._policy.microbatch_loss
        self._policy.microbatch_loss = lambda microbatch, batch: self._broken_loss(loss, microbatch, batch)

    def _break_engine(self) -> None:
        from ada_lightning.rollout.engines.vllm_engine import VllmEngine

        poll, load = VllmEngine.poll, VllmEngine.load_weights

        def broken_poll(engine: Any) -> Any:
            self._before_poll()
            return poll(engine)

        def broken_load(engine: Any, named: Any, version: int) -> None:
            if self._take("sync_mismatch"):
                named = ((name, tensor * 3.0) for name, tensor in named)
            load(engine, named, version)

        VllmEngine.poll, VllmEngine.load_weights = broken_poll, broken_load  # type: ignore[method-assign]

    def _break_files(self) -> None:
        from ada_lightning.callbacks.checkpoint import RolloutCheckpoint
        from ada_lightning.callbacks.mlflow_run import MlflowRun

        save, log_metrics = RolloutCheckpoint.save, MlflowRun.log_metrics

        def broken_save(callback: Any, trainer: Any, policy: Any) -> Any:
            if self._take("kill_before_checkpoint"):
                os.kill(os.getpid(), signal.SIGKILL)
            if self._take("disk_full"):
                resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
            target = save(callback, trainer, policy)
            if self._take("kill_after_checkpoint"):
                os.kill(os.getpid(), signal.SIGKILL)
            return target

        def broken_log(run: Any, rows: Any) -> None:
            if self._take("tracking_down"):
                raise ConnectionError("injected: the tracking store is down")
            log_metrics(run, rows)

        RolloutCheckpoint.save, MlflowRun.log_metrics = broken_save, broken_log  # type: ignore[method-assign]

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """Kill between what is written of a rollout and its update."""
        self._num_microbatches = 0
        if self._take("kill_after_rollout"):
            os.kill(os.getpid(), signal.SIGKILL)

    def _before_poll(self) -> None:
        step = self._step()
        self._num_polls = self._num_polls + 1 if step == self._step_of_polls else 1
        self._step_of_polls = step
        acts: dict[str, Callable[[], Any]] = {
            "engine_dies": lambda: _raise(RuntimeError("injected: the engine died")),
            "engine_hangs": lambda: time.sleep(10_000),
            "engine_stuck": _lock_for_ever,
            "worker_dies": _kill_a_worker,
            "sigterm": lambda: os.kill(os.getpid(), signal.SIGTERM),
            "sigusr1": lambda: os.kill(os.getpid(), signal.SIGUSR1),
            "kill_in_rollout": lambda: os.kill(os.getpid(), signal.SIGKILL),
        }
        for kind, act in acts.items():
            if self._take(kind, self._num_polls):
                act()

    def _broken_loss(self, loss: Callable[..., Any], microbatch: Any, batch: Any) -> Any:
        import torch

        self._num_microbatches += 1
        if self._take("gpu_memory", self._num_microbatches):
            raise torch.OutOfMemoryError("injected: CUDA out of memory")
        if self._take("host_memory", self._num_microbatches):
            raise MemoryError("injected")
        if self._take("kill_in_update", self._num_microbatches):
            os.kill(os.getpid(), signal.SIGKILL)
        value, sums = loss(microbatch, batch)
        if self._take("nan_loss", self._num_microbatches):
            value = value * float("nan")
        if self._take("huge_gradient", self._num_microbatches):
            value = value * 1e6
        return value, sums

    def _step(self) -> int:
        return int(self._policy.policy_version // self._data.updates_per_rollout)

    def _take(self, kind: str, moment: int | None = None) -> bool:
        """Whether a fault of this kind is due now; notes it as done."""
        for fault in self.faults:
            is_due = fault.kind == kind and fault.step <= self._step() and fault.key not in self._done
            if is_due and (moment is None or moment >= fault.moment):
                self._done.add(fault.key)
                with (self.run_dir / DONE_FILE).open("ab", buffering=0) as file:
                    entry = {**asdict(fault), "at_step": self._step(), "pid": os.getpid()}
                    file.write((json.dumps(entry) + "\n").encode())
                return True
        return False


def _raise(error: Exception) -> None:
    raise error


def _kill_a_worker() -> None:
    import psutil

    workers = [child for child in psutil.Process().children(recursive=True) if child.children() == []]
    if workers:
        workers[-1].kill()


def _lock_for_ever() -> None:
    """Wait in native code, where no signal's handler runs: a mutex that is locked twice."""
    mutex = ctypes.create_string_buffer(64)
    library = ctypes.CDLL(None)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)
