"""Checkpoints that are whole and checked, or absent: a Hugging Face policy folder and the trainer's state."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.types import _PATH
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.plugins.io import TorchCheckpointIO
from lightning.pytorch.utilities.exceptions import SIGTERMException

from ada_lightning.parallel.optimizer_state import whole_optimizer_state
from ada_lightning.parallel.strategies import OPTIMIZER_FOLDER
from ada_lightning.run.checkpoints import CheckpointStore, Retention, write_manifest
from ada_lightning.run.run_dir import RunDir
from ada_lightning.run.stopping import RunStoppedError, StopSignals
from ada_lightning.training.batch import TrainingBatch
from ada_lightning.training.policy import PolicyModule

from .run_parts import run_parts
from .weight_average import average_of

POLICY_FOLDER = "policy"
AVERAGE_FOLDER = "policy_average"
TRAINER_FILE = "trainer.ckpt"


class RolloutCheckpoint(Callback):
    """Writes ``checkpoints/step_000010/{policy/, trainer.ckpt}`` every N steps, at the end and on Ctrl-C.

    The folder is written under a temporary name and renamed, and ``checkpoints/last`` is switched to it afterwards. So
    a kill at any moment leaves the previous checkpoint in place. ``manifest.json`` in it holds the checksum of every
    file, by which a resume recognises a damaged one. The policy is float32, the exact master weights: it loads in
    transformers and vLLM, and is stored once, not again in the trainer's state.

    Args:
        run_dir: of the run.
        tokenizer: saved with the policy.
        every_n_steps: rollout steps between two checkpoints; 0 writes only the last.
        keep_last: newest checkpoints that stay; with 2 a damaged one costs ``every_n_steps`` steps, not the run.
        keep_every: rollout steps; checkpoints at multiples of it stay for good. 0 keeps none of them.
        whole_steps: where a run is stopped between two updates of a rollout, leave the last checkpoint as it is. A
            checkpoint there saves the updates that are done, but what is left of the rollout would be drawn anew, from
            a policy that had never sampled without the stop.

    Raises:
        ValueError: a number is out of range.
    """

    def __init__(
        self,
        *,
        run_dir: str | Path,
        tokenizer: Any,
        every_n_steps: int = 10,
        keep_last: int = 2,
        keep_every: int = 0,
        whole_steps: bool = False,
    ) -> None:
        if every_n_steps < 0:
            raise ValueError(f"callbacks.checkpoint needs every_n_steps >= 0; got {every_n_steps}")
        self.run_dir = RunDir(run_dir)
        self.tokenizer = tokenizer
        self.every_n_steps = every_n_steps
        self.retention = Retention(keep_last=keep_last, keep_every=keep_every)
        self.whole_steps = whole_steps
        self.store = CheckpointStore(self.run_dir.checkpoints)
        self._saved_version = -1
        self._restored: dict[str, int] | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Say what a process does where another one leads.

        Raises:
            ValueError: a host of the run does not see its folder, into which every process writes its part.
        """
        ranks = run_parts(trainer, pl_module)[0].ranks
        ranks.on("trainer_state", trainer.save_checkpoint)
        if hosts := ranks.hosts_without(self.run_dir.path / ".seen-by-all"):
            raise ValueError(
                f"run_dir = {self.run_dir.path} is not seen by host {' and '.join(hosts)}: every process writes its "
                "part of a checkpoint there, and reads it again. Use run_dir=... on a file system that all hosts see"
            )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """After a resume, continue Lightning's counters, which start anew with the rest of the stream.

        Settings of the optimiser are those of the command line, not those of the checkpoint.
        """
        if self._restored is None:
            return
        run_parts(trainer, pl_module)[0].apply_optimizer_settings()
        epoch_loop = trainer.fit_loop.epoch_loop
        epoch_loop.manual_optimization.optim_step_progress.total.ready = self._restored["global_step"]
        epoch_loop.manual_optimization.optim_step_progress.total.completed = self._restored["global_step"]

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: TrainingBatch, batch_idx: int
    ) -> None:
        """Save after every ``every_n_steps`` rollout steps."""
        policy, data = run_parts(trainer, pl_module)
        step, update = divmod(policy.policy_version, data.updates_per_rollout)
        if self.every_n_steps and update == 0 and step % self.every_n_steps == 0:
            self.save(trainer, policy)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the final policy."""
        self.save(trainer, run_parts(trainer, pl_module)[0])

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Save on Ctrl-C and SIGTERM, unless a second signal may have stopped an update half-way.

        And where the run's folder was deleted: the policy in memory is all that is left, so the folder is made anew.
        """
        callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
        guards = [callback for callback in callbacks if isinstance(callback, InterruptGuard)]
        # Which process was forced does not matter: a leader that does not save ends, and so the others do.
        was_safe = bool(guards) and not any(guard.is_forced for guard in guards)
        is_gone = isinstance(exception, FileNotFoundError) and not (self.run_dir.path / "config.yaml").exists()
        if is_gone:
            self._saved_version = -1
        is_stop = is_gone or isinstance(exception, KeyboardInterrupt | SIGTERMException)
        if is_stop and was_safe and hasattr(pl_module, "model"):
            policy, data = run_parts(trainer, pl_module)
            is_between = policy.policy_version % data.updates_per_rollout != 0
            if policy.policy_version > 0 and not (self.whole_steps and is_between):
                self.save(trainer, policy)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Drop Lightning's loop counters: the stream's length is what is left, so they start anew after a resume."""
        checkpoint.pop("loops", None)
        checkpoint["rollout_checkpoint"] = {
            "global_step": trainer.global_step,
            "policy_version": run_parts(trainer, pl_module)[0].policy_version,
        }

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Remember the counters for :meth:`on_train_start`; bring an optimiser that was saved in shards together."""
        policy, _ = run_parts(trainer, pl_module)
        if policy.sharding is None:
            folder = Path(trainer.ckpt_path or "").parent / OPTIMIZER_FOLDER
            if "sharded_optimizer" in checkpoint:
                settings = checkpoint["sharded_optimizer"]
                checkpoint["optimizer_states"] = [whole_optimizer_state(folder, policy.model, settings)]
        self._restored = dict(checkpoint["rollout_checkpoint"])
        self._saved_version = self._restored["policy_version"]

    def save(self, trainer: Trainer, policy: PolicyModule) -> Path:
        """Write a checkpoint of this policy version, unless it exists. All processes call it; the first one writes.

        Raises:
            RunStoppedError: it could not be written, as on a full disk; earlier checkpoints are as they were.
        """
        policy.ranks.lead(lambda: self._write(trainer, policy))
        return self.store.folder / f"step_{policy.policy_version:06d}"

    def _write(self, trainer: Trainer, policy: PolicyModule) -> None:
        version = policy.policy_version
        if version == self._saved_version:
            return
        with policy.clock.phase("checkpoint"):
            unfinished = self.store.folder / f"step_{version:06d}.tmp"
            try:
                unfinished = self.store.unfinished(version)
                policy.save_weights(unfinished / POLICY_FOLDER)
                policy.trained.save(policy.model, unfinished)
                self.tokenizer.save_pretrained(unfinished / POLICY_FOLDER)
                if (average := average_of(trainer)) is not None:
                    with average.as_weights():
                        policy.save_weights(unfinished / AVERAGE_FOLDER)
                    self.tokenizer.save_pretrained(unfinished / AVERAGE_FOLDER)
                with policy.ranks.command("trainer_state", unfinished / TRAINER_FILE):
                    trainer.save_checkpoint(unfinished / TRAINER_FILE)
                write_manifest(unfinished, policy_version=version)
                self._flush_logs()
                self.store.finish(unfinished)
            except Exception as error:  # of the disk: torch and safetensors each have errors of their own for it
                shutil.rmtree(unfinished, ignore_errors=True)
                raise RunStoppedError(self._failure(version, error)) from error
        self._saved_version = version
        data = run_parts(trainer, policy)[1]
        self.store.prune(self.retention, newest=version, updates_per_step=data.updates_per_rollout)

    def _failure(self, version: int, error: Exception) -> str:
        free_gb = shutil.disk_usage(self.run_dir.path).free / 1e9
        return (
            f"the checkpoint of policy version {version} could not be written to {self.store.folder} "
            f"({type(error).__name__}: {error}); {free_gb:.2f} GB are free there: make room, or lower "
            f"callbacks.checkpoint.keep_last = {self.retention.keep_last}"
        )

    def _flush_logs(self) -> None:
        """Put the rows of the steps before a checkpoint on the disk before it: a resume repeats only those after it."""
        for path in (self.run_dir.metrics_csv, self.run_dir.prompts_csv):
            if path.exists():
                with path.open("rb") as file:
                    os.fsync(file.fileno())


class StreamingCheckpointIO(TorchCheckpointIO):
    """Saves without the copy in memory that Lightning makes for atomicity.

    For a 135M model that copy is more than 1 GB, the peak of the whole run.
    :class:`~ada_lightning.callbacks.checkpoint.RolloutCheckpoint` is atomic by renaming a complete folder instead.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: _PATH, storage_options: Any | None = None) -> None:
        """Write ``checkpoint`` to ``path``, a new file.

        Raises:
            TypeError: storage options, which a plain file does not have.
        """
        if storage_options is not None:
            raise TypeError("StreamingCheckpointIO writes plain files; it takes no storage_options")
        torch.save(checkpoint, path)


class InterruptGuard(Callback):
    """The first signal stops at the next safe point (between engine steps, between microbatches).

    A KeyboardInterrupt raised inside ``optimizer.step()`` would leave some weights updated and others not; raised
    inside the engine it would leave requests behind. The same signal again, or Ctrl-C after any, stops at once,
    and then no checkpoint is written.
    """

    def __init__(self) -> None:
        # SIGUSR1 is what SLURM sends ahead of a time limit where it is told to: --signal=USR1@<seconds>.
        self._signals = StopSignals("without a checkpoint", (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1))

    @property
    def asks_for_requeue(self) -> bool:
        """Whether a scheduler's signal stopped the run, and not a person's Ctrl-C."""
        return self._signals.received in (signal.SIGTERM, signal.SIGUSR1) and not self.is_forced

    @property
    def is_forced(self) -> bool:
        """Whether a second signal stopped the run where it was."""
        return self._signals.is_forced

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Take the signals over; before Lightning, which then leaves SIGUSR1 alone under SLURM."""
        assert isinstance(pl_module, PolicyModule)
        self._signals.install()
        pl_module.interrupt_with(self._signals.check)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Give the signals back."""
        self.release()

    def release(self) -> None:
        """Do so after an exception: Lightning then tears nothing down, and hands the signals to this guard again."""
        self._signals.restore()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """With several processes, take SIGTERM over from Lightning: its handler broadcasts, wherever the others are."""
        if trainer.world_size > 1:
            self._signals.echo_s = 1.0
            self._signals.install()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """A step is complete: the safest point of all."""
        assert isinstance(pl_module, PolicyModule)
        pl_module.ranks.check_together(self._signals.check)
