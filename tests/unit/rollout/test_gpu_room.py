"""Too little memory on a GPU is said before an engine is built; the GPU is a stand-in."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from ada_lightning.rollout.engines.gpu_room import room_on_gpu, weights_gib
from ada_lightning.rollout.engines.vllm_engine import VllmEngine

GIB = 2**30


@pytest.fixture
def card(monkeypatch):
    """Free GiB of each GPU of 80; what was given back is remembered."""
    found = SimpleNamespace(free=[3.25], given_back=0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (int(found.free[index] * GIB), 80 * GIB))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: setattr(found, "given_back", found.given_back + 1))
    return found


def test_an_engine_that_does_not_fit_is_refused_with_what_is_free_and_what_is_asked(card):
    with pytest.raises(ValueError, match="asks for") as refused:
        room_on_gpu(kv_cache_gib=16, weights_gib=1.1)
    assert str(refused.value) == (
        "the engine asks for 17.1 GiB of GPU 0, where 3.2 of 80.0 GiB are free: rollout.engine.kv_cache_gib = 16, and "
        "1.1 for weights; use less than rollout.engine.kv_cache_gib=2.1, or end what else is on this GPU (nvidia-smi "
        "lists it)"
    )
    assert card.given_back == 1  # the trainer's allocator holds memory that the engine can have


def test_no_smaller_cache_is_offered_where_not_even_the_weights_fit(card):
    with pytest.raises(ValueError, match=r"and 4\.0 for weights; end what else is on this GPU"):
        room_on_gpu(kv_cache_gib=1, weights_gib=4)


def test_what_fits_to_the_byte_is_let_through(card):
    card.free = [3.0]
    room_on_gpu(kv_cache_gib=2, weights_gib=1)


def test_each_gpu_of_a_spread_engine_takes_a_share_of_the_weights_and_the_whole_cache(card):
    card.free = [4.0, 4.0]
    room_on_gpu(kv_cache_gib=2, weights_gib=4, num_gpus=2)
    card.free = [4.0, 3.9]
    with pytest.raises(ValueError, match=r"asks for 4\.0 GiB of GPU 1, where 3\.9 of 80\.0"):
        room_on_gpu(kv_cache_gib=2, weights_gib=4, num_gpus=2)


def test_weights_count_in_the_engines_type_and_packed_integers_in_their_own(tmp_path):
    tensors = {"a": torch.zeros(100, 10), "b": torch.zeros(50, dtype=torch.bfloat16)}
    save_file(tensors, tmp_path / "model-00001-of-00002.safetensors")
    save_file({"packed": torch.zeros(8, dtype=torch.int32)}, tmp_path / "model-00002-of-00002.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({}))
    assert weights_gib(tmp_path, "bfloat16") * GIB == 2 * 1050 + 4 * 8
    assert weights_gib(tmp_path, "float32") * GIB == 4 * 1050 + 4 * 8


@pytest.mark.parametrize("extra", [None, {"cpu_offload_gb": 1}])
def test_an_engine_on_a_gpu_asks_before_vllm_builds_anything(card, monkeypatch, tiny_path, tmp_path, extra):
    """With settings of vLLM's own only the cache is sure to be needed."""
    monkeypatch.setattr("vllm.platforms.current_platform", SimpleNamespace(is_cuda_alike=lambda: True))
    monkeypatch.setattr("vllm.v1.engine.llm_engine.LLMEngine.from_engine_args", lambda _: pytest.fail("was built"))
    card.free = [1.0]
    arguments = {"model_path": tiny_path, "max_model_tokens": 64, "eos_token_ids": [], "log_file": tmp_path / "log"}
    with pytest.raises(ValueError, match=r"asks for 1\.0 GiB of GPU 0, where 1\.0 of"):
        VllmEngine(kv_cache_gib=1.0 if extra is None else 1.01, dtype="float32", extra=extra, **arguments)
