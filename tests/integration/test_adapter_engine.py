"""Adapters that reach the real engine as adapters: the tiny model, in float32."""

from __future__ import annotations

import pytest
import torch

from ada_lightning.rollout.engines.weight_transfer import Adapter
from tests.integration.conftest import column
from tests.integration.test_vllm_engine import PROMPTS, SETTINGS, logprobs, open_engine
from tests.unit.training.models.test_lora import adapted

pytestmark = pytest.mark.vllm
LORA = ("parameters=lora", "parameters.rank=4", "+rollout/weight_transfer=adapter")


@pytest.mark.long
def test_an_engine_that_takes_adapters_samples_from_each_version_of_the_policy(train):
    """In a process of its own and overlapped, so that older adapters are kept. The canary compares every version with
    what the trainer says of it, after prefixes that the one before has cached in blocks of 32 tokens."""
    folder = train(
        *LORA, "rollout=vllm_process", "rollout.host.num_threads=1", "rollout.engine.block_size=32",
        "rollout.max_staleness=1", "loss.anchor=behaviour", "loss.importance_cap=0", "num_steps=4", vllm=True,
    )  # fmt: skip
    assert max(column(folder, "sync/canary_gap")) < 1e-3
    assert column(folder, "staleness/versions") == [0, 1, 1, 1]
    first, *later = column(folder, "staleness/kl")
    assert first < 1e-7
    assert min(later) > 10 * first


def test_responses_of_several_versions_are_drawn_at_once_each_from_its_own(tiny_path, tmp_path):
    """Every second request is of the other version, and a third comes while both are in flight."""
    lora, first = adapted(tiny_path, moved=True)
    models = {1: first, 2: adapted(tiny_path, moved=True, seed=5)[1], 3: adapted(tiny_path, moved=True, seed=6)[1]}
    engine = open_engine(tiny_path, tmp_path, weight_transfer=Adapter(rank=4, max_staleness=2))
    try:
        engine.load_weights(lora.named_adapters(models[1]), policy_version=1)
        engine.publish(lora.named_adapters(models[2]), policy_version=2)
        asked = {f"r{number}": (PROMPTS[number // 3], 1 + number % 3) for number in range(3 * len(PROMPTS))}
        done, late = {}, []
        for seed, (name, (prompt, version)) in enumerate(asked.items()):
            if version == 3:
                late.append((name, prompt, seed))
            else:
                engine.submit(name, prompt, SETTINGS, seed, policy_version=version)
        done |= {generation.request_id: generation for generation in engine.poll()}
        engine.publish(lora.named_adapters(models[3]), policy_version=3)
        for name, prompt, seed in late:
            engine.submit(name, prompt, SETTINGS, seed, policy_version=3)
        while engine.num_in_flight():
            done |= {generation.request_id: generation for generation in engine.poll()}
        engine.keep({3})
        assert list(engine.versions) == [3]
    finally:
        engine.close()
    own, others = [], []
    for name, (prompt, version) in asked.items():
        drawn = torch.tensor(done[name].sampling_logprobs)
        for other, model in models.items():
            gap = (logprobs(model, prompt, done[name].response_ids) - drawn).abs().mean()
            (own if other == version else others).append(float(gap))
    assert max(own) < 1e-4  # float32; adapters of vLLM and peft multiply in another order
    assert min(others) > 10 * max(own)
