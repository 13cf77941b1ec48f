"""Adapters of several policy versions in one engine; on vLLM itself: tests/integration/test_adapter_engine.py."""

from __future__ import annotations

import pytest
import torch

from ada_lightning.rollout.engines.weight_transfer import Adapter
from tests.builders import SETTINGS
from tests.unit.rollout.recorded_vllm import recorded

ADAPTER = {f"model.layers.0.self_attn.q_proj.lora_{side}.weight": torch.ones(8, 8) for side in "AB"}


def test_adapters_of_several_versions_lie_side_by_side():
    """A version that comes once more is another adapter: prefixes that are cached belong to the one before."""
    assert not recorded(0, Adapter(rank=8)).serves_versions
    transfer = Adapter(rank=8, max_staleness=1)
    engine = recorded(0, transfer)
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


def test_an_adapter_that_vllm_dropped_is_noticed():
    engine = recorded(0, Adapter(rank=8, max_staleness=1))
    engine.load_weights(ADAPTER.items(), policy_version=1)
    engine._engine.adapters.clear()
    with pytest.raises(RuntimeError, match=r"vLLM has adapters \{2\} instead of \{1, 2\}"):
        engine.publish(ADAPTER.items(), policy_version=2)
