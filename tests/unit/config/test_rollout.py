from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from ada_lightning.config.check import ConfigError, check_config
from ada_lightning.rollout.engines import ray_pool

CONF = str(Path(__file__).resolve().parents[3] / "conf")
GPU = ["trainer=gpu"]


def problems(*overrides):
    with initialize_config_dir(CONF, version_base="1.3"):
        cfg = compose("train", ["+experiment=ada_seq_balance", "model=tiny", *overrides])
    try:
        check_config(cfg)
    except ConfigError as error:
        return error.problems
    return []


@pytest.mark.parametrize(
    "overrides",
    [
        ["rollout=vllm_process"],
        ["rollout=ray"],
        ["rollout=ray", "rollout.engine.max_num_seqs=16", "rollout/schedule=barrier"],
        [*GPU, "rollout=vllm_gpu"],
        [*GPU, "rollout=vllm_gpu", "rollout.engine.sleep_level=2"],
        [*GPU, "rollout=vllm_gpu_process"],
        [*GPU, "rollout=vllm_gpu_process", "rollout/weight_transfer=nccl"],
        [*GPU, "rollout=vllm_gpu_process", "+rollout.host.environment.CUDA_VISIBLE_DEVICES=1"],
    ],
    ids=" ".join,
)
def test_shipped_places_are_in_order(overrides):
    assert problems(*overrides) == []


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["rollout=vllm_gpu", "rollout.engine.sleep_level=1"], "sleep_level = 1: vLLM sleeps on a GPU only"),
        (["rollout=vllm_gpu_process"], "CudaIpc goes from GPU to GPU, and trainer.accelerator = cpu"),
        ([*GPU, "rollout=vllm_gpu", "rollout/weight_transfer=ipc"], "CudaIpc goes to another process"),
        (
            [*GPU, "rollout=vllm_gpu_process", "rollout/weight_transfer=ipc", "trainer.devices=2"],
            "CudaIpc shares one GPU with one training process, and trainer.devices = 2",
        ),
        (
            [
                *GPU,
                "rollout=ray",
                "+rollout.engine.weight_transfer._target_=ada_lightning.rollout.engines.weight_transfer.Nccl",
            ],
            "Nccl reaches no engine that replaces another",
        ),
        (
            [*GPU, "rollout=ray", "+rollout.engine.tensor_parallel_size=2", "rollout.host.num_gpus=1"],
            "rollout.host.num_gpus = 1 is less than rollout.engine.tensor_parallel_size = 2",
        ),
        (
            [*GPU, "rollout=vllm_gpu_process", "rollout.host.num_engines=2"],
            "rollout.host.num_engines = 2: engines in processes of this machine would share one GPU",
        ),
        (["rollout=ray", "rollout.host.num_engines=0"], "rollout.host.num_engines must be at least 1; got 0"),
        (
            ["rollout=ray", "+rollout.host.num_engine=3"],
            "unknown key rollout.host.num_engine; did you mean num_engines?",
        ),
        (["reproducible=true", "rollout=vllm_process"], "does not go with rollout.host = ProcessPool"),
        (["reproducible=true", "rollout=ray"], "reproducible=true does not go with rollout.host = RayPool"),
        (
            ["reproducible=true", "rollout=vllm_process", "trainer=fsdp", "trainer.devices=2", "trainer.num_nodes=1"],
            "one training process",
        ),
        (["rollout=vllm_process", "rollout.host.call_timeout_s=-1"], "rollout.host.call_timeout_s must be a positive"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_go_together_is_named(overrides, message):
    assert any(message in problem for problem in problems(*overrides))


@pytest.mark.parametrize("overrides", [["rollout=vllm_cpu"], [*GPU, "rollout=vllm_gpu"]], ids=" ".join)
def test_an_engine_in_the_trainers_process_may_be_reproducible(overrides):
    assert problems("reproducible=true", *overrides) == []


def test_a_missing_ray_is_found_before_a_model_loads(monkeypatch):
    monkeypatch.setattr(ray_pool, "find_spec", lambda name: None)
    assert any("pip install 'ada-lightning[ray]'" in problem for problem in problems("rollout=ray"))
