from __future__ import annotations

import signal

import pytest
from lightning.pytorch import Callback

from ada_lightning.callbacks.checkpoint import InterruptGuard
from tests.unit.training.test_policy import fit, make_policy, pack


class Failing(Callback):
    def on_train_start(self, trainer, pl_module):
        raise RuntimeError("a bug")


def test_signals_are_free_again_after_a_run_that_failed(tiny_path):
    before = signal.getsignal(signal.SIGTERM)
    guard = InterruptGuard()
    with pytest.raises(RuntimeError, match="a bug"):
        fit(make_policy(tiny_path), pack(), guard, Failing())
    assert signal.getsignal(signal.SIGTERM) != before  # what Lightning leaves
    guard.release()
    assert signal.getsignal(signal.SIGTERM) == before
