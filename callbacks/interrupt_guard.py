"""Ctrl-C, SIGTERM and SIGUSR1 stop a run where nothing is half done."""

from __future__ import annotations

import signal
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from ada_lightning.run.stopping import StopSignals
from ada_lightning.training.policy import PolicyModule


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
