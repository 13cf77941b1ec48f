"""Adapters that reach the real engine as adapters: the tiny model, in float32."""

from __future__ import annotations

import torch

from ada_lightning.rollout.engines.weight_transfer import Adapter
from ada_lightning.training.models.lora import LoraParameters
from tests.integration.conftest import column
from tests.integration.test_vllm_engine import PROMPTS, generate, largest_gap, load, open_engine

LORA = ("parameters=lora", "parameters.rank=4", "+rollout/weight_transfer=adapter")


def moved(model, lora, number):
    generator = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for parameter in lora.trainable(model):
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))


def test_the_engine_samples_from_the_adapters_it_was_given_last(tiny_path, tmp_path):
    """Prompts are longer than a block, so that a prefix which is cached under other adapters would be hit."""
    model, lora = load(tiny_path), LoraParameters(rank=4, alpha=8.0, rank_stabilized=True)
    lora.attach(model, None)
    engine = open_engine(tiny_path, tmp_path, weight_transfer=Adapter(rank=4))
    try:
        engine.load_weights(lora.named_adapters(model), policy_version=0)
        assert largest_gap(engine, model) < 1e-3  # B is 0: the initial policy
        long_prompts, seen = [[1, *range(10, 50)]] * 2, []
        for version in (1, 2):
            moved(model, lora, version)
            assert largest_gap(engine, model) > 0.05  # the version before, so the bound says something
            engine.load_weights(lora.named_adapters(model), policy_version=version)
            assert largest_gap(engine, model) < 1e-3
            seen.append([generation.sampling_logprobs for generation in generate(engine, long_prompts)])
        assert seen[0] != seen[1]
        sent = sum(tensor.nbytes for _, tensor in lora.named_adapters(model))
        assert sent < 0.5 * sum(tensor.nbytes for _, tensor in lora.named_weights(model))
        assert len(generate(engine, PROMPTS)) == len(PROMPTS)
    finally:
        engine.close()


def test_a_run_whose_engine_takes_adapters_in_a_process_of_its_own_samples_from_its_policy(train):
    """Overlapped, so that older adapters are kept; the canary compares each version with the trainer's own."""
    folder = train(
        *LORA, "rollout=vllm_process", "rollout.host.num_threads=1", "rollout.max_staleness=1",
        "loss.anchor=behaviour", "loss.importance_cap=0", "num_steps=3", vllm=True,
    )  # fmt: skip
    assert max(column(folder, "sync/canary_gap")) < 1e-3
    assert column(folder, "staleness/versions") == [0, 1, 1]
    first, *later = column(folder, "staleness/kl")
    assert first < 1e-7
    assert min(later) > 10 * first
