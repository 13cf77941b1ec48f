"""Adapters that reach the real engine as adapters: the tiny model, in float32."""

from __future__ import annotations

import pytest

from tests.integration.conftest import column

pytestmark = pytest.mark.vllm
LORA = ("parameters=lora", "parameters.rank=4", "+rollout/weight_transfer=adapter")


def test_an_engine_that_takes_adapters_samples_from_each_version_of_the_policy(train):
    """In a process of its own and overlapped, so that older adapters are kept. The canary compares every version with
    what the trainer says of it, after prefixes that the one before has cached in blocks of 32 tokens."""
    folder = train(
        *LORA, "rollout=vllm_process", "rollout.host.num_threads=1", "rollout.engine.block_size=32",
        "rollout.max_staleness=1", "loss.anchor=behaviour", "loss.importance_cap=0", "num_steps=3", vllm=True,
    )  # fmt: skip
    assert max(column(folder, "sync/canary_gap")) < 1e-3
    assert column(folder, "staleness/versions") == [0, 1, 1]
    first, *later = column(folder, "staleness/kl")
    assert first < 1e-7
    assert min(later) > 10 * first
