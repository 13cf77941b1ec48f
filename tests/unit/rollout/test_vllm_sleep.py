"""What the engine asks of vLLM around a sleep and a weight transfer; vLLM itself sleeps on GPUs only."""

from __future__ import annotations

import pytest
import torch

from ada_lightning.rollout.engines.vllm_engine import VllmEngine
from ada_lightning.rollout.engines.weight_transfer import Adapter, Nccl, Reload
from tests.builders import SETTINGS
from tests.unit.rollout.recorded_vllm import recorded

LOADED = ["repack_tied_head", "wake kv_cache", "reset prefixes"]
"""What follows new weights, whichever way they came."""


def test_after_level_1_a_request_wakes_weights_before_the_cache():
    engine = recorded(1)
    assert engine.sleep()
    assert engine.sleep()  # asleep already
    engine.submit("r", [1], SETTINGS, seed=0)
    engine.submit("s", [1], SETTINGS, seed=0)
    assert engine._engine.calls == ["sleep 1", "wake weights", "wake kv_cache", "add request", "add request"]


def test_after_level_2_nothing_is_sampled_before_weights_are_loaded():
    engine = recorded(2)
    assert not engine.sleep()
    with pytest.raises(RuntimeError, match="after sleep_level = 2 the engine has no weights"):
        engine.submit("r", [1], SETTINGS, seed=0)
    assert engine._engine.calls == ["sleep 2"]
    engine.load_weights([], policy_version=1)
    engine.submit("r", [1], SETTINGS, seed=0)
    loaded = ["wake weights", "reload_weights", *LOADED]
    assert engine._engine.calls == ["sleep 2", *loaded, "add request"]


def test_an_adapter_comes_where_the_weights_are_awake():
    engine = recorded(1, Adapter(rank=8))
    engine.sleep()
    adapter = {f"model.layers.0.self_attn.q_proj.lora_{side}.weight": torch.ones(8, 8) for side in "AB"}
    engine.load_weights(adapter.items(), policy_version=1)
    assert engine._engine.calls == ["sleep 1", "wake weights", "add adapter 1", "wake kv_cache", "reset prefixes"]


def test_an_engine_whose_weights_are_given_away_takes_no_adapters():
    with pytest.raises(ValueError, match=r"sleep_level = 2 gives the model's weights away.*use .*sleep_level=1"):
        VllmEngine.check_arguments(sleep_level=2, weight_transfer=Adapter(rank=8))
    VllmEngine.check_arguments(sleep_level=1, weight_transfer=Adapter(rank=8))
    VllmEngine.check_arguments(sleep_level=2, weight_transfer=Reload())


def test_level_0_never_sleeps():
    engine = recorded(0)
    assert engine.sleep()
    engine.submit("r", [1], SETTINGS, seed=0)
    assert engine._engine.calls == ["add request"]
    with pytest.raises(RuntimeError, match="sleep with 1 requests in flight"):
        engine.sleep()


def test_a_transfer_wakes_the_weights_first_and_the_cache_last():
    engine = recorded(2)
    engine.sleep()
    for method, argument in (
        ("init_weight_transfer_engine", {"packed": True}),
        ("start_weight_update", {}),
        ("update_weights", {"names": ["a"]}),
        ("finish_weight_update", {}),
    ):
        engine.update_weights(method, argument)
    assert engine._engine.calls == [
        "sleep 2",
        ("init_weight_transfer_engine", {"init_info": {"packed": True}}),
        "wake weights",
        "start_weight_update",
        ("update_weights", {"update_info": {"names": ["a"]}}),
        "finish_weight_update",
        *LOADED,
    ]


def test_old_prefixes_that_stay_after_a_transfer_are_an_error():
    engine = recorded(0)
    engine._engine.is_reset = False
    with pytest.raises(RuntimeError, match="did not reset its prefix cache"):
        engine.update_weights("finish_weight_update", {})
    engine._in_flight.add("r")
    with pytest.raises(RuntimeError, match="start_weight_update with 1 requests in flight"):
        engine.update_weights("start_weight_update", {})


def test_the_way_of_the_weights_is_told_to_vllm():
    engine = recorded(0)
    assert engine._transfer_arguments() == {}
    engine.weight_transfer = Nccl()
    assert engine._transfer_arguments()["weight_transfer_config"].backend == "nccl"


def test_options_are_checked_all_at_once(tmp_path):
    options = {"max_model_tokens": 8, "eos_token_ids": [2], "sleep_level": 3, "tensor_parallel_size": 0}
    with pytest.raises(ValueError, match=r"tensor_parallel_size must be positive; got 0; .*must be 0, 1 or 2; got 3"):
        VllmEngine(model_path=tmp_path, log_file=tmp_path / "log", **options)
