from __future__ import annotations

import pytest
import torch

from ada_lightning.callbacks.environment import Environment, check_same_environment
from tests.unit.callbacks.small_run import Policy

CPU = torch.device("cpu")


def checkpoint(changed):
    state = {}
    Environment().on_save_checkpoint(None, Policy(), state)
    state["environment"] |= changed
    return state


def resumed(state):
    callback = Environment()
    callback.on_load_checkpoint(None, Policy(), state)
    return callback


def test_the_same_environment_passes_without_a_word(tmp_path):
    for state in (checkpoint({}), {}):  # a run without this callback kept none
        resumed(state).on_train_start(None, Policy())
        torch.save(state, tmp_path / "trainer.ckpt")
        check_same_environment(tmp_path, CPU)


def test_another_number_of_threads_is_a_warning_and_for_a_reproducible_run_refused_before_anything_loads(tmp_path):
    state = checkpoint({"threads": 99})
    with pytest.warns(RuntimeWarning, match=r"threads was 99 and is \d+"):
        resumed(state).on_train_start(None, Policy())
    torch.save(state, tmp_path / "trainer.ckpt")
    with pytest.raises(ValueError, match=r"threads was 99.*OMP_NUM_THREADS=99.*reproducible=false"):
        check_same_environment(tmp_path, CPU)
