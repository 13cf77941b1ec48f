"""What vLLM is told, by vLLM's own code for a GPU, which needs none here."""

from __future__ import annotations

from types import SimpleNamespace

from vllm.engine.arg_utils import EngineArgs
from vllm.v1.worker.utils import request_memory

from tests.unit.rollout.recorded_vllm import recorded


def test_vllm_asks_for_no_share_of_the_card_but_the_cache_in_bytes(tiny_path):
    engine = recorded(0)
    engine.weight_dtype = "bfloat16"
    own = engine._own_arguments(block_size=16, kv_cache_gib=2, enforce_eager=True)
    cache = EngineArgs(model=str(tiny_path), **own).create_engine_config().cache_config
    assert cache.kv_cache_memory_bytes == 2 * 2**30
    card = SimpleNamespace(total_memory=80 * 2**30, free_memory=2**20, device_="cuda")
    assert request_memory(card, cache) < card.free_memory
