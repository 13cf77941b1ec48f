"""Ctrl-C and SIGTERM stop a run where nothing is half done."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from ada_lightning.policy import PolicyModule


class InterruptGuard(Callback):
    """The first signal stops at the next safe point (between engine steps, between microbatches).

    A KeyboardInterrupt raised inside ``optimizer.step()`` would leave some weights updated and others not; raised
    inside the engine it would leave requests behind. A second signal stops at once, and then no checkpoint is written.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.is_forced = False
        self._previous: dict[signal.Signals, Any] = {}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Take over both signals."""
        assert isinstance(pl_module, PolicyModule)
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._on_signal)
        pl_module.interrupt_check = self.check

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Give the signals back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
        """A step is complete: the safest point of all."""
        self.check()

    def check(self) -> None:
        """Stop here if a signal arrived.

        Raises:
            KeyboardInterrupt: one did.
        """
        if self.received is not None and not self.is_forced:
            raise KeyboardInterrupt(self.received.name)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            self.is_forced = True
            raise KeyboardInterrupt(signal.Signals(number).name)
        self.received = signal.Signals(number)
        print(
            f"\n{self.received.name}: stopping at the next safe point; once more stops at once, without a checkpoint",
            file=sys.stderr,
            flush=True,
        )
