"""Layers cut across two processes: the gradients of one, for every kind of layer that the plan knows."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ada_lightning.parallel.sharding import check_divisible
from tests.unit.parallel.small_training import train

SIZES = {
    "vocab_size": 259, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128, "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
def test_biases_and_norms_of_heads_get_the_whole_gradient(pair, tmp_path, kind):
    """Qwen2 has biases on the divided projections, Qwen3 norms that each process sees for its own heads only."""
    config = AutoConfig.for_model(kind, tie_word_embeddings=False, **SIZES)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    expected = train("alone", tmp_path, "uneven groups")
    for outcome in pair.run(
        train, kind="fsdp", path=tmp_path, rollout="uneven groups", strategy_options={"tensor_parallel_size": 2}
    ):
        for name, gradient in expected.gradients[0].items():
            difference = float((outcome.gradients[0][name] - gradient).norm())
            assert difference <= 1e-5 * float(gradient.norm()) + 1e-9, name  # a key's bias shifts no attention: 0


def model_of(kind="llama", **sizes):
    layer = torch.nn.Module()
    for block, names in (("self_attn", "q_proj k_proj v_proj o_proj"), ("mlp", "gate_proj up_proj down_proj")):
        layer.add_module(block, torch.nn.Module())
        for name in names.split():
            layer.get_submodule(block).add_module(name, torch.nn.Linear(1, 1))
    return SimpleNamespace(config=SimpleNamespace(model_type=kind, **{**SIZES, **sizes})), layer


def test_layers_of_a_known_kind_that_divide_are_in_order():
    check_divisible(*model_of(), 2)


@pytest.mark.parametrize("name", ["num_attention_heads", "num_key_value_heads", "intermediate_size"])
def test_sizes_that_do_not_divide_are_refused(name):
    with pytest.raises(ValueError, match=f"tensor_parallel_size = 2 does not divide the model's {name} = 7; use "):
        check_divisible(*model_of(**{name: 7}), 2)


def test_layers_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="works for llama, mistral, qwen2, qwen3; this model is gpt2; use "):
        check_divisible(*model_of("gpt2"), 2)
    model, layer = model_of()
    del layer.mlp.up_proj
    with pytest.raises(ValueError, match="works for llama, mistral, qwen2, qwen3"):
        check_divisible(model, layer, 2)
