"""The memory plan against models that exist and against what autograd keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ada_lightning.rollout.engines.transformers_decoder import Slots
from research.benchmarks.memory_plan import (
    GIB,
    QWEN_1_5B,
    QWEN_7B,
    SMOLLM2_135M,
    WITHOUT_VLLM,
    Architecture,
    Setting,
    count_activations,
    plan,
    sequences_in_cache,
)
from tests.unit.documented import ROOT, commands

SMALL = Architecture("small", 2, 64, 160, 4, 2, 16, 503, True, False)


def of_config(config, *, has_qkv_bias):
    return Architecture(
        "config",
        config.num_hidden_layers,
        config.hidden_size,
        config.intermediate_size,
        config.num_attention_heads,
        config.num_key_value_heads,
        config.head_dim or config.hidden_size // config.num_attention_heads,
        config.vocab_size,
        config.tie_word_embeddings,
        has_qkv_bias,
    )


def test_parameters_are_those_of_a_model_that_exists(tiny_path):
    from transformers import AutoModelForCausalLM

    from ada_lightning.training.models.lora import LoraParameters

    model = AutoModelForCausalLM.from_pretrained(tiny_path)
    sizes = of_config(model.config, has_qkv_bias=False)
    assert sizes.parameters == sum(parameter.numel() for parameter in model.parameters())
    lora = LoraParameters(rank=4)
    lora.attach(model, None)
    assert sizes.lora_parameters(4) == sum(parameter.numel() for parameter in lora.trainable(model))


@pytest.mark.parametrize(
    ("model", "published"), [(SMOLLM2_135M, 134_515_008), (QWEN_1_5B, 1_543_714_304), (QWEN_7B, 7_615_616_512)]
)
def test_parameters_are_the_published_ones(model, published):
    """As the safetensors files of the hub say."""
    assert model.parameters == published


@pytest.mark.parametrize("num_tokens", [96, 192])
def test_activations_are_what_autograd_keeps(num_tokens):
    by_formula, counted = count_activations(SMALL, num_tokens)
    assert counted == by_formula


def test_sharding_divides_what_is_sharded_and_nothing_else():
    one, eight = (plan(Setting("", "", QWEN_7B, gpus, 80)) for gpus in (1, 8))
    assert eight.optimizer == pytest.approx(one.optimizer / 8)
    assert eight.gradients == pytest.approx(one.gradients / 8)
    assert (eight.activations, eight.engine_weights) == (one.activations, one.engine_weights)
    assert eight.weights < one.weights / 4


def test_adapters_need_no_second_model_for_a_reference():
    setting = Setting("", "", QWEN_7B, 1, 80, has_reference=True)
    assert plan(setting).weights > plan(replace(setting, lora_rank=8)).weights


def test_cache_holds_keys_and_values_of_every_layer():
    setting = Setting("", "", SMALL, 1, 80, kv_cache_gib=1.0)
    assert sequences_in_cache(setting, 1024) == 2**30 // (2 * 2 * 2 * 2 * 16 * 1024)


def test_memory_without_vllm_is_what_the_engine_takes():
    slots = Slots(num_slots=3, num_tokens=16)
    for layer in range(SMALL.num_layers):
        keys_BHTD = torch.zeros(1, SMALL.key_heads, 1, SMALL.head_size, dtype=torch.bfloat16)
        slots._layer(layer, keys_BHTD, keys_BHTD)
    taken = sum(tensor.nbytes for layer in slots._layers.values() for tensor in layer)
    assert Setting("", "", SMALL, 1, 80, num_slots=3, slot_tokens=16).cache_gib * GIB == taken


def test_the_page_for_a_gpu_gives_the_commands_that_are_computed():
    whole, _, adapters = (set(setting.options.split()) for setting in WITHOUT_VLLM)
    command = set(commands("docs/gpu.md")[0])
    assert whole <= command
    appended = adapters - whole
    assert len(appended) == 4
    page = " ".join((ROOT / "docs/gpu.md").read_text().split())
    assert all(option in page for option in appended)
