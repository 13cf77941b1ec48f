"""What the engine asks of vLLM around a sleep and a weight transfer; vLLM itself sleeps on GPUs only."""

from __future__ import annotations

import pytest
import torch

from ada_lightning.rollout.engines.vllm_adapters import LoadedAdapters
from ada_lightning.rollout.engines.vllm_engine import VllmEngine
from ada_lightning.rollout.engines.weight_transfer import Adapter, Nccl, Reload
from tests.builders import SETTINGS

LOADED = ["_repack_tied_head", "wake kv_cache", "reset prefixes"]
"""What follows new weights, whichever way they came."""


class RecordingEngine:
    """Stands for ``LLMEngine``: remembers the order of calls."""

    def __init__(self):
        self.calls = []
        self.model_config = type("Config", (), {"dtype": None})
        self.is_reset = True
        self.adapters = set()

    def sleep(self, level):
        self.calls.append(f"sleep {level}")

    def wake_up(self, tags):
        self.calls.append(f"wake {','.join(tags)}")

    def collective_rpc(self, method, kwargs=None):
        name = method if isinstance(method, str) else method.__name__
        self.calls.append((name, kwargs) if kwargs and "weights_iterator" not in kwargs else name)

    def add_lora(self, request):
        self.calls.append(f"add adapter {request.lora_int_id}")
        self.adapters.add(request.lora_int_id)

    def remove_lora(self, number):
        self.calls.append(f"remove adapter {number}")
        self.adapters.remove(number)

    def list_loras(self):
        return self.adapters

    def reset_prefix_cache(self):
        self.calls.append("reset prefixes")
        return self.is_reset

    def add_request(self, request_id, prompt, params, lora_request=None):
        self.calls.append("add request" + (f" of {lora_request.lora_int_id}" if lora_request else ""))


@pytest.fixture
def engine():
    """An engine around the recorder, as its constructor would leave it."""

    def make(sleep_level, weight_transfer=Reload()):  # noqa: B008 - frozen
        engine = object.__new__(VllmEngine)
        engine.max_model_tokens, engine.max_num_seqs, engine.num_workers = 32, 8, 1
        engine.sleep_level, engine.weight_transfer = sleep_level, weight_transfer
        engine.takes_adapters = isinstance(weight_transfer, Adapter)
        engine._engine, engine._in_flight, engine._asleep, engine._has_weights = RecordingEngine(), set(), set(), True
        engine._adapters = LoadedAdapters(engine._engine)
        engine._eos_token_ids, engine._final_only = [2], None
        engine._sampling_params = lambda **settings: settings
        return engine

    return make


def test_after_level_1_a_request_wakes_weights_before_the_cache(engine):
    engine = engine(1)
    assert engine.sleep()
    assert engine.sleep()  # asleep already
    engine.submit("r", [1], SETTINGS, seed=0)
    engine.submit("s", [1], SETTINGS, seed=0)
    assert engine._engine.calls == ["sleep 1", "wake weights", "wake kv_cache", "add request", "add request"]


def test_after_level_2_nothing_is_sampled_before_weights_are_loaded(engine):
    engine = engine(2)
    assert not engine.sleep()
    with pytest.raises(RuntimeError, match="after sleep_level = 2 the engine has no weights"):
        engine.submit("r", [1], SETTINGS, seed=0)
    assert engine._engine.calls == ["sleep 2"]
    engine.load_weights([], policy_version=1)
    engine.submit("r", [1], SETTINGS, seed=0)
    loaded = ["wake weights", "reload_weights", *LOADED]
    assert engine._engine.calls == ["sleep 2", *loaded, "add request"]


def test_an_adapter_comes_where_the_weights_are_awake(engine):
    engine = engine(1, Adapter(rank=8))
    engine.sleep()
    adapter = {f"model.layers.0.self_attn.q_proj.lora_{side}.weight": torch.ones(8, 8) for side in "AB"}
    engine.load_weights(adapter.items(), policy_version=1)
    assert engine._engine.calls == ["sleep 1", "wake weights", "add adapter 1", "wake kv_cache", "reset prefixes"]


ADAPTER = {f"model.layers.0.self_attn.q_proj.lora_{side}.weight": torch.ones(8, 8) for side in "AB"}


def test_adapters_of_several_versions_lie_side_by_side(engine):
    """A version that comes once more is another adapter: prefixes that are cached belong to the one before."""
    assert not engine(0, Adapter(rank=8)).serves_versions
    transfer = Adapter(rank=8, max_staleness=1)
    engine = engine(0, transfer)
    assert engine.serves_versions
    assert transfer.max_adapters == 3
    engine.load_weights(ADAPTER.items(), policy_version=4)
    engine.submit("r", [1], SETTINGS, seed=0, policy_version=4)
    engine.publish(ADAPTER.items(), policy_version=5)
    engine.submit("s", [1], SETTINGS, seed=0, policy_version=5)
    engine.submit("t", [1], SETTINGS, seed=0, policy_version=4)
    with pytest.raises(ValueError, match=r"the engine has policy versions \[4, 5\], not 6"):
        engine.submit("u", [1], SETTINGS, seed=0, policy_version=6)
    engine.keep({5})
    assert set(engine.versions) == {5}
    engine.publish(ADAPTER.items(), policy_version=5)
    calls = [call for call in engine._engine.calls if call != "reset prefixes"]
    assert calls == [
        "add adapter 1", "add request of 1", "add adapter 2", "add request of 2", "add request of 1",
        "remove adapter 1", "remove adapter 2", "add adapter 3",
    ]  # fmt: skip


def test_an_adapter_that_vllm_dropped_is_noticed(engine):
    engine = engine(0, Adapter(rank=8, max_staleness=1))
    engine.load_weights(ADAPTER.items(), policy_version=1)
    engine._engine.adapters.clear()
    with pytest.raises(RuntimeError, match=r"vLLM has adapters \{2\} instead of \{1, 2\}"):
        engine.publish(ADAPTER.items(), policy_version=2)


def test_an_engine_whose_weights_are_given_away_takes_no_adapters():
    with pytest.raises(ValueError, match=r"sleep_level = 2 gives the model's weights away.*use .*sleep_level=1"):
        VllmEngine.check_arguments(sleep_level=2, weight_transfer=Adapter(rank=8))
    VllmEngine.check_arguments(sleep_level=1, weight_transfer=Adapter(rank=8))
    VllmEngine.check_arguments(sleep_level=2, weight_transfer=Reload())


def test_level_0_never_sleeps(engine):
    engine = engine(0)
    assert engine.sleep()
    engine.submit("r", [1], SETTINGS, seed=0)
    assert engine._engine.calls == ["add request"]
    with pytest.raises(RuntimeError, match="sleep with 1 requests in flight"):
        engine.sleep()


def test_a_transfer_wakes_the_weights_first_and_the_cache_last(engine):
    engine = engine(2)
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


def test_old_prefixes_that_stay_after_a_transfer_are_an_error(engine):
    engine = engine(0)
    engine._engine.is_reset = False
    with pytest.raises(RuntimeError, match="did not reset its prefix cache"):
        engine.update_weights("finish_weight_update", {})
    engine._in_flight.add("r")
    with pytest.raises(RuntimeError, match="start_weight_update with 1 requests in flight"):
        engine.update_weights("start_weight_update", {})


def test_the_way_of_the_weights_is_told_to_vllm(engine):
    engine = engine(0)
    assert engine._transfer_arguments() == {}
    engine.weight_transfer = Nccl()
    assert engine._transfer_arguments()["weight_transfer_config"].backend == "nccl"


def test_options_are_checked_all_at_once(tmp_path):
    options = {"max_model_tokens": 8, "eos_token_ids": [2], "sleep_level": 3, "tensor_parallel_size": 0}
    with pytest.raises(ValueError, match=r"tensor_parallel_size must be positive; got 0; .*must be 0, 1 or 2; got 3"):
        VllmEngine(model_path=tmp_path, log_file=tmp_path / "log", **options)
