"""The real engine on the tiny model, in float32, in a process of its own; whole runs: test_several_processes.py."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from ada_lightning.rollout.engines.vllm_engine import VllmEngine
from ada_lightning.run.machine import num_cores
from tests.integration.conftest import column

pytestmark = pytest.mark.vllm


LAG = ("rollout.max_staleness=1", "loss.anchor=behaviour", "loss.importance_cap=0", "num_steps=3")


@pytest.mark.long
def test_a_run_whose_steps_overlap_is_that_of_the_emulation_in_the_trainers_process_bit_for_bit(train):
    """With two engines that go over to each version one after the other, or one where there are no cores for them.

    With one: tests/unit/callbacks/test_staleness_run.py. One response at a time, and blocks too long to be shared:
    rounding depends on what is computed together.
    """
    alone, elsewhere = ("rollout.engine.max_num_seqs=1", "rollout.engine.block_size=128"), "rollout=vllm_process"
    emulated = train(*LAG, *alone, name="emulated", vllm=True)
    wanted = load_file(emulated / "checkpoints/last/policy/model.safetensors")
    num_threads = torch.get_num_threads()
    num_engines = min(2, num_cores() // num_threads)
    pool = (f"rollout.host.num_threads={num_threads}", f"rollout.host.num_engines={num_engines}")
    beside = train(*LAG, *alone, elsewhere, *pool, name="beside", vllm=True)
    assert column(beside, "rollout/latency_s")  # sampled beside the trainer
    for name in ("rollout/num_sampled", "train/loss", "staleness/kl", "sync/logprob_gap"):
        assert column(beside, name) == column(emulated, name), name
    assert max(column(beside, "sync/canary_gap")) < 1e-3
    weights = load_file(beside / "checkpoints/last/policy/model.safetensors")
    assert all(weights[name].equal(wanted[name]) for name in wanted)


@pytest.mark.long
def test_gradients_that_are_streamed_are_those_of_a_rollout_that_was_waited_for(train):
    """The same responses; updates up to the order of sums in float32."""
    waited, streamed = (
        train(
            "rollout=vllm_process", "data.max_tokens_per_microbatch=16", f"rollout.stream_gradients={choice}",
            name=choice,
        )
        for choice in ("false", "true")
    )  # fmt: skip
    assert max(column(streamed, "train/streamed_ratio")) > 0
    for name in ("rollout/num_sampled", "rollout/generated_tokens"):
        assert column(streamed, name) == column(waited, name), name
    for name in ("train/loss", "train/grad_norm"):
        assert column(streamed, name) == pytest.approx(column(waited, name), rel=1e-3, abs=1e-6), name


@pytest.mark.long
def test_the_probe_for_gpus_tells_an_engine_with_the_trainers_weights_from_a_stale_one(monkeypatch, tmp_path):
    """docs/gpu_acceptance.sh, with the engine of this machine in place of one on a GPU."""
    from scripts import gpu_acceptance

    settings = {"kv_cache_gib": 0.05, "block_size": 32, "enforce_eager": True}
    for name, value in (("DEVICE", "cpu"), ("DTYPE", "float32"), ("ENGINE", settings), ("LOGS", tmp_path)):
        monkeypatch.setattr(gpu_acceptance, name, value)
    assert gpu_acceptance.engine() == "16 seeded responses repeat"
    assert "from the old weights" in gpu_acceptance.reload()
    load_weights, loads = VllmEngine.load_weights, []

    def loads_once(self, named_tensors, policy_version):
        loads.append(policy_version)
        if len(loads) == 1:
            load_weights(self, named_tensors, policy_version)

    monkeypatch.setattr(VllmEngine, "load_weights", loads_once)
    with pytest.raises(AssertionError, match=r"sync 2: log-probabilities differ by \d\.\d+ nat"):
        gpu_acceptance.reload()
