"""Checkpoints that are complete or absent: a Hugging Face policy folder and the trainer's state beside it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.exceptions import SIGTERMException

from ada_lightning.batch import TrainingBatch
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.parallel.optimizer_state import whole_optimizer_state
from ada_lightning.parallel.strategies import OPTIMIZER_FOLDER
from ada_lightning.policy import PolicyModule
from callbacks.interrupt_guard import InterruptGuard

POLICY_FOLDER = "policy"
TRAINER_FILE = "trainer.ckpt"


class RolloutCheckpoint(Callback):
    """Writes ``checkpoints/step_000010/{policy/, trainer.ckpt}`` every N steps, at the end and on Ctrl-C.

    The folder is written under a temporary name and renamed, and ``checkpoints/last`` is switched to it afterwards,
    so a kill at any moment leaves the previous checkpoint in place. The policy is float32, the exact master weights:
    it loads in transformers and vLLM, and is stored once, not again in the trainer's state.

    Args:
        run_dir: of the run.
        tokenizer: saved with the policy.
        every_n_steps: rollout steps between two checkpoints; 0 writes only the last.
        keep_last: older checkpoints are deleted.

    Raises:
        ValueError: a number is out of range.
    """

    def __init__(self, *, run_dir: str | Path, tokenizer: Any, every_n_steps: int = 10, keep_last: int = 1) -> None:
        if every_n_steps < 0 or keep_last < 1:
            raise ValueError(
                f"callbacks.checkpoint needs every_n_steps >= 0 and keep_last >= 1; got {every_n_steps}, {keep_last}"
            )
        self.folder = Path(run_dir) / "checkpoints"
        self.tokenizer = tokenizer
        self.every_n_steps = every_n_steps
        self.keep_last = keep_last
        self._saved_version = -1
        self._restored: dict[str, int] | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Say what a process does where another one leads."""
        _parts(trainer, pl_module)[0].ranks.on("trainer_state", trainer.save_checkpoint)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """After a resume, continue Lightning's counters, which start anew with the rest of the stream.

        Settings of the optimiser are those of the command line, not those of the checkpoint.
        """
        if self._restored is None:
            return
        _parts(trainer, pl_module)[0].apply_optimizer_settings()
        epoch_loop = trainer.fit_loop.epoch_loop
        epoch_loop.manual_optimization.optim_step_progress.total.ready = self._restored["global_step"]
        epoch_loop.manual_optimization.optim_step_progress.total.completed = self._restored["global_step"]

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: TrainingBatch, batch_idx: int
    ) -> None:
        """Save after every ``every_n_steps`` rollout steps."""
        policy, data = _parts(trainer, pl_module)
        step, minibatch = divmod(policy.policy_version, data.num_minibatches)
        if self.every_n_steps and minibatch == 0 and step % self.every_n_steps == 0:
            self.save(trainer, policy)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the final policy."""
        self.save(trainer, _parts(trainer, pl_module)[0])

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Save on Ctrl-C and SIGTERM, unless a second signal may have stopped an update half-way."""
        callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
        guards = [callback for callback in callbacks if isinstance(callback, InterruptGuard)]
        # Which process was forced does not matter: a leader that does not save ends, and so the others do.
        was_safe = bool(guards) and not any(guard.is_forced for guard in guards)
        if isinstance(exception, KeyboardInterrupt | SIGTERMException) and was_safe and hasattr(pl_module, "model"):
            policy, _ = _parts(trainer, pl_module)
            if policy.policy_version > 0:
                self.save(trainer, policy)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Drop Lightning's loop counters: the stream's length is what is left, so they start anew after a resume."""
        checkpoint.pop("loops", None)
        checkpoint["rollout_checkpoint"] = {
            "global_step": trainer.global_step,
            "policy_version": _parts(trainer, pl_module)[0].policy_version,
        }

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Remember the counters for :meth:`on_train_start`; bring an optimiser that was saved in shards together."""
        policy, _ = _parts(trainer, pl_module)
        if policy.sharding is None:
            folder = Path(trainer.ckpt_path or "").parent / OPTIMIZER_FOLDER
            if "sharded_optimizer" in checkpoint:
                settings = checkpoint["sharded_optimizer"]
                checkpoint["optimizer_states"] = [whole_optimizer_state(folder, policy.model, settings)]
        self._restored = dict(checkpoint["rollout_checkpoint"])
        self._saved_version = self._restored["policy_version"]

    def save(self, trainer: Trainer, policy: PolicyModule) -> Path:
        """Write a checkpoint of this policy version, unless it exists. All processes call it; the first one writes."""
        target = self.folder / f"step_{policy.policy_version:06d}"
        policy.ranks.lead(lambda: self._write(trainer, policy, target))
        return target

    def _write(self, trainer: Trainer, policy: PolicyModule, target: Path) -> None:
        if policy.policy_version == self._saved_version:
            return
        with policy.clock.phase("checkpoint"):
            unfinished = target.with_name(target.name + ".tmp")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            policy.save_weights(unfinished / POLICY_FOLDER)
            self.tokenizer.save_pretrained(unfinished / POLICY_FOLDER)
            with policy.ranks.command("trainer_state", unfinished / TRAINER_FILE):
                trainer.save_checkpoint(unfinished / TRAINER_FILE)
            _flush_to_disk(unfinished)
            shutil.rmtree(target, ignore_errors=True)
            unfinished.rename(target)
            self._point_last_at(target)
        self._saved_version = policy.policy_version
        self._delete_old()

    def _point_last_at(self, target: Path) -> None:
        link = self.folder / "last.tmp"
        link.unlink(missing_ok=True)
        link.symlink_to(target.name)
        link.replace(self.folder / "last")

    def _delete_old(self) -> None:
        complete = sorted(path for path in self.folder.glob("step_*") if not path.name.endswith(".tmp"))
        for old in complete[: -self.keep_last]:
            shutil.rmtree(old, ignore_errors=True)


def _flush_to_disk(folder: Path) -> None:
    """Make the rename that follows the last thing a power cut can lose."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _parts(trainer: Trainer, pl_module: LightningModule) -> tuple[PolicyModule, RolloutDataModule]:
    data = getattr(trainer, "datamodule", None)
    assert isinstance(pl_module, PolicyModule)
    assert isinstance(data, RolloutDataModule)
    return pl_module, data
