"""What a GPU adds: the run of a CPU, alone and sharded, its checkpoints, and memory that really is exhausted.

The tests of ``tests/unit/training`` compute on a GPU by themselves where there is one.
"""

from __future__ import annotations

import pytest
import torch

from tests.builders import random_group
from tests.unit.parallel.checkpoint_runs import read_folder, run_steps
from tests.unit.parallel.flow_run import run_flow
from tests.unit.parallel.pair import Pair
from tests.unit.training.test_policy import EXACT, fit, gradients, make_policy, pack, weights

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="about a GPU")
SAME = {"rtol": 1e-4, "atol": 1e-5}  # float32 after four updates with plain SGD and learning rate 1


@pytest.fixture(scope="module")
def one():
    """A process of its own: a group of processes is made once in its life."""
    started = Pair(1)
    yield started
    started.close()


@pytest.mark.parametrize("kind", ["alone", "fsdp", "ddp"])
def test_a_run_on_a_gpu_is_that_on_a_cpu(one, tiny_path, tmp_path, kind):
    expected = run_flow("alone", tiny_path, tmp_path / "cpu")
    (found,) = one.run(run_flow, kind=kind, path=tiny_path, run_dir=tmp_path / "gpu", on_gpu=True)
    assert found["ended"] == expected["ended"] == ""
    assert found["loaded"] == expected["loaded"] == [0, 2, 4]
    on_cpu = {name: tensor.cpu() for name, tensor in found["weights"].items()}
    torch.testing.assert_close(on_cpu, expected["weights"], **SAME)
    torch.testing.assert_close(read_folder(tmp_path / "gpu/checkpoints/last/policy"), on_cpu, rtol=0, atol=0)
    assert found["metrics"].keys() == expected["metrics"].keys()
    for name in ("rollout/num_sampled", "train/loss", "train/grad_norm", "estimator/brier"):
        assert found["metrics"][name] == pytest.approx(expected["metrics"][name], rel=1e-3, abs=1e-6), name


@pytest.mark.parametrize(("first", "then"), [("alone", "fsdp"), ("fsdp", "alone"), ("cpu", "fsdp"), ("fsdp", "cpu")])
def test_a_run_goes_on_where_its_checkpoint_was_not_written(one, tiny_path, tmp_path, first, then):
    whole = run_steps("alone", tiny_path, tmp_path / "whole", num_steps=3)
    for kind, num_steps in ((first, 2), (then, 3)):
        where = {"kind": "alone"} if kind == "cpu" else {"kind": kind, "on_gpu": True}
        (weights,) = one.run(
            run_steps, path=tiny_path, run_dir=tmp_path / "run", num_steps=num_steps, resume=num_steps == 3, **where
        )
    torch.testing.assert_close(weights, whole, **SAME)


@pytest.mark.filterwarnings("ignore:an update ran out of memory")
def test_an_update_that_does_not_fit_into_the_gpu_is_repeated_in_halves(tiny_path):
    """Memory of which three quarters of what an update needs are there."""
    batches = pack([random_group(key, [1.0, 0.0] * 8, max_length=200) for key in range(64)])
    policy = make_policy(tiny_path, lr=1.0, logprob_chunk_size=10**6)
    expected, before = gradients(policy, batches), weights(policy)
    policy.zero_grad()
    needed, kept = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        torch.cuda.set_per_process_memory_fraction((kept + 0.75 * (needed - kept)) / total)
        fit(policy, batches)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert policy.num_memory_retries == 1
    steps = {name: before[name] - after for name, after in weights(policy).items()}
    torch.testing.assert_close(steps, expected, **EXACT)
