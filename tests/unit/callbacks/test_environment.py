from __future__ import annotations

import pytest

from ada_lightning.run_stopped import RunStoppedError
from callbacks.environment import Environment
from tests.unit.callbacks.small_run import Policy


def resumed(changed, *, reproducible):
    checkpoint = {}
    Environment().on_save_checkpoint(None, Policy(), checkpoint)
    checkpoint["environment"] |= changed
    callback = Environment(reproducible=reproducible)
    callback.on_load_checkpoint(None, Policy(), checkpoint)
    return callback


@pytest.mark.parametrize("reproducible", [True, False])
def test_the_same_environment_passes_without_a_word(reproducible):
    resumed({}, reproducible=reproducible).on_train_start(None, Policy())
    callback = Environment(reproducible=True)
    callback.on_load_checkpoint(None, Policy(), {})  # of an earlier version
    callback.on_train_start(None, Policy())


def test_another_number_of_threads_is_a_warning_and_for_a_reproducible_run_an_error():
    with pytest.warns(RuntimeWarning, match=r"threads was 99 and is \d+"):
        resumed({"threads": 99}, reproducible=False).on_train_start(None, Policy())
    with pytest.raises(RunStoppedError, match=r"threads was 99.*OMP_NUM_THREADS=99.*reproducible=false"):
        resumed({"threads": 99}, reproducible=True).on_train_start(None, Policy())
