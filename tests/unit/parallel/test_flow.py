"""The first process leads: what it does alone, what the others do with it, and how all of them end."""

from __future__ import annotations

import pytest
import torch

from tests.unit.parallel.checkpoint_runs import read_folder
from tests.unit.parallel.flow_run import run_flow

SAME = {"rtol": 1e-4, "atol": 1e-6}  # float32 after four updates with plain SGD and learning rate 1


@pytest.fixture(scope="module")
def alone(tiny_path, tmp_path_factory):
    return run_flow("alone", tiny_path, tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize(("kind", "trouble"), [("fsdp", "load"), ("ddp", "")])
def test_a_run_of_two_processes_is_that_of_one(pair, tiny_path, tmp_path, alone, kind, trouble):
    """Preview, beliefs from representations, rollouts, old log-probabilities, checkpoints, evaluation.

    With `load` the first engine breaks after three of the weights: a new one gets all of them.
    """
    leader, follower = pair.run(run_flow, kind=kind, path=tiny_path, run_dir=tmp_path, trouble=trouble)
    assert leader["ended"] == follower["ended"] == alone["ended"] == ""
    assert alone["loaded"] == [0, 2, 4]
    assert leader["loaded"] == (["broken"] if trouble else []) + alone["loaded"]
    assert follower["loaded"] == []  # no engine of its own
    torch.testing.assert_close(leader["weights"], alone["weights"], **SAME)
    assert leader["version"] == follower["version"] == 4
    assert leader["checkpoints"] == alone["checkpoints"] == ["last", "step_000002", "step_000004"]
    torch.testing.assert_close(read_folder(tmp_path / "checkpoints/last/policy"), leader["weights"], rtol=0, atol=0)
    assert leader["metrics"].keys() == alone["metrics"].keys()
    for name in ("rollout/num_sampled", "train/loss", "train/grad_norm", "estimator/brier"):
        assert leader["metrics"][name] == pytest.approx(alone["metrics"][name], rel=1e-3, abs=1e-6), name


def test_an_interrupt_of_the_leader_stops_all_and_leaves_a_checkpoint(pair, tiny_path, tmp_path):
    leader, follower = pair.run(
        run_flow, kind="fsdp", path=tiny_path, run_dir=tmp_path, trouble="interrupt", num_minibatches=1
    )
    assert leader["ended"] == follower["ended"] == "SystemExit: 1"  # Lightning's end of an interrupted run
    assert leader["checkpoints"] == ["last", "step_000001"]
    assert read_folder(tmp_path / "checkpoints/last/policy").keys() == leader["weights"].keys()


def test_an_error_of_the_leader_ends_the_others_with_a_word_of_its_own(pair, tiny_path, tmp_path):
    leader, follower = pair.run(
        run_flow, kind="fsdp", path=tiny_path, run_dir=tmp_path, trouble="always", num_minibatches=1
    )
    assert leader["ended"].startswith("EngineError: ")
    assert "out of memory" in leader["ended"]
    assert follower["ended"].startswith("LeaderStopped: the leading process ended the run: EngineError: ")
    assert leader["loaded"] == [0, 1, 1]  # the engine was replaced once
