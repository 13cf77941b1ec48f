"""Adapters of several policy versions in one engine; on vLLM itself: tests/integration/test_adapter_engine.py."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

import pytest
import torch

from ada_lightning.rollout.engines.weight_transfer import Adapter
from tests.builders import SETTINGS
from tests.unit.rollout.recorded_vllm import recorded

ADAPTER = {f"model.layers.0.self_attn.q_proj.lora_{side}.weight": torch.ones(8, 8) for side in "AB"}


def test_adapters_of_several_versions_lie_side_by_side():
    """A version that comes again is another adapter: prefixes that are cached belong to the one before."""
    assert not recorded(0, Adapter(rank=8)).serves_versions
    transfer = Adapter(rank=8, max_staleness=1)
    engine = recorded(0, transfer)
    assert engine.serves_versions
    engine.load_weights(ADAPTER.items(), policy_version=4)
    engine.submit("r", [1], SETTINGS, seed=0, policy_version=4)
    engine.publish(ADAPTER.items(), policy_version=5)
    engine.submit("s", [1], SETTINGS, seed=0, policy_version=5)
    engine.submit("t", [1], SETTINGS, seed=0, policy_version=4)
    with pytest.raises(ValueError, match=r"the engine has policy versions \[4, 5\], not 6"):
        engine.submit("u", [1], SETTINGS, seed=0, policy_version=6)
    with pytest.raises(ValueError, match="the engine has policy version 5 already"):
        engine.publish(ADAPTER.items(), policy_version=5)
    engine.submit("v", [1], SETTINGS, seed=0)  # of the last one that came
    engine.keep({4})
    assert set(engine.versions) == {4}
    with pytest.raises(ValueError, match=r"the engine has policy versions \[4\], not 5"):
        engine.submit("w", [1], SETTINGS, seed=0)
    engine.publish(ADAPTER.items(), policy_version=5)
    calls = [call for call in engine._engine.calls if call != "reset prefixes"]
    assert calls == [
        "add adapter 1", "add request of 1", "add adapter 2", "add request of 2", "add request of 1",
        "add request of 2", "remove adapter 2", "add adapter 3",
    ]  # fmt: skip


def test_a_version_wakes_the_weights_among_which_its_adapters_lie():
    engine = recorded(1, Adapter(rank=8, max_staleness=1))
    engine.sleep()
    engine.publish(ADAPTER.items(), policy_version=1)
    assert engine._engine.calls == ["sleep 1", "wake weights", "add adapter 1"]


def test_a_closed_engine_holds_nothing_of_vllm(monkeypatch):
    monkeypatch.setattr("vllm.distributed.cleanup_dist_env_and_memory", lambda: None)
    engine = recorded(0, Adapter(rank=8))
    inner = engine._engine
    inner.engine_core = SimpleNamespace(shutdown=lambda: None)
    engine.load_weights(ADAPTER.items(), policy_version=1)
    engine.close()
    freed = weakref.ref(inner)
    del inner
    assert freed() is None


def test_an_adapter_that_vllm_dropped_is_noticed():
    engine = recorded(0, Adapter(rank=8, max_staleness=1))
    engine.load_weights(ADAPTER.items(), policy_version=1)
    engine._engine.adapters.clear()
    with pytest.raises(RuntimeError, match=r"vLLM has adapters \{2\} instead of \{1, 2\}"):
        engine.publish(ADAPTER.items(), policy_version=2)
