"""Whose fault it is when an engine does not get its weights."""

from __future__ import annotations

import pytest
import torch

from ada_lightning.rollout.engine_supervisor import EngineSupervisor
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.host import TrainerProcess
from ada_lightning.run.phase_clock import PhaseClock
from tests.unit.rollout.faulty_engines import CoinEngine


class Picky(CoinEngine):
    def load_weights(self, named_tensors, policy_version):
        for name, _ in named_tensors:
            if name == "odd":
                raise KeyError(name)


@pytest.fixture
def supervisor(tmp_path):
    made = EngineSupervisor(lambda **_: Picky(), TrainerProcess(), max_restarts=0, stall_limit_s=60, start_limit_s=60)
    made.open(tmp_path / "engine.log")
    yield made
    made.close()


def weights(*names):
    for name in names:
        if name == "lost":
            raise RuntimeError("connection closed by peer")
        yield name, torch.zeros(1)


def test_weights_that_cannot_be_gathered_are_no_fault_of_the_engine(supervisor):
    """As when a training process is gone that has a part of them: another engine would not get them either."""
    with pytest.raises(RuntimeError, match="connection closed by peer") as raised:
        supervisor.sync(1, lambda: weights("a", "lost"), PhaseClock())
    assert not isinstance(raised.value, EngineError)
    with pytest.raises(EngineError, match="KeyError: 'odd'"):
        supervisor.sync(1, lambda: weights("a", "odd"), PhaseClock())
    supervisor.sync(1, lambda: weights("a", "b"), PhaseClock())
    assert supervisor.loaded_version == 1
