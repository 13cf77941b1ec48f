"""Low-rank adapters on the tiny model: what trains, what the engine gets, what a checkpoint holds."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch
from lightning.pytorch import Trainer

from ada_lightning.training.models.lora import LoraParameters
from ada_lightning.training.models.trained import AllParameters
from tests.unit.training.test_policy import QUIET, Batches, pack, unloaded

TOKENS = torch.tensor([[5, 9, 17, 3, 40, 2]])


def load(path):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)


def logits(model):
    with torch.no_grad():
        return model(TOKENS).logits


def adapted(path, *, checkpoint=None, moved=False, **options):
    """The tiny model with adapters, moved away from their start if asked."""
    lora = LoraParameters(**{"rank": 4, "alpha": 8.0} | options)
    model = load(path)
    lora.attach(model, checkpoint)
    if moved:
        generator = torch.Generator().manual_seed(1)
        for parameter in lora.trainable(model):
            parameter.data += 0.05 * torch.randn(parameter.shape, generator=generator)
    return lora, model


def test_at_first_it_is_the_initial_model_and_only_adapters_train(tiny_path):
    """On every linear layer but the head."""
    lora, model = adapted(tiny_path)
    assert torch.equal(logits(model), logits(load(tiny_path)))
    names = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert all("lora_A" in name or "lora_B" in name for name in names)
    linear = [name for name, layer in load(tiny_path).named_modules() if isinstance(layer, torch.nn.Linear)]
    assert len(lora.trainable(model)) == len(names) == 2 * sum(not name.endswith("lm_head") for name in linear) > 0


def test_the_engine_gets_the_merged_weights_under_the_names_of_the_checkpoint(tiny_path):
    lora, model = adapted(tiny_path, moved=True)
    merged = dict(lora.named_weights(model))
    initial = load(tiny_path)
    assert list(merged) == [name for name, _ in AllParameters().named_weights(initial)]
    initial.load_state_dict(merged, strict=False)  # tied weights come once
    assert not torch.allclose(logits(model), logits(load(tiny_path)), atol=1e-3)
    torch.testing.assert_close(logits(initial), logits(model), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rank_stabilized", [False, True])
def test_adapters_that_are_sent_alone_make_the_merged_weights_of_the_frozen_ones(rank_stabilized, tiny_path):
    lora, model = adapted(tiny_path, moved=True, rank_stabilized=rank_stabilized)
    sent, merged = dict(lora.named_adapters(model)), dict(lora.named_weights(model))
    initial = dict(load(tiny_path).named_parameters())
    layers = [name.removesuffix(".lora_A.weight") for name in sent if name.endswith(".lora_A.weight")]
    assert len(sent) == 2 * len(layers) > 0
    for layer in layers:
        name = f"{layer.removeprefix('base_model.model.')}.weight"
        delta = sent[f"{layer}.lora_B.weight"] @ sent[f"{layer}.lora_A.weight"]
        torch.testing.assert_close(initial.pop(name) + delta, merged[name])
    assert all(torch.equal(weight, merged[name]) for name, weight in initial.items())


def test_without_its_adapters_the_model_is_the_reference_until_the_end_or_an_error(tiny_path):
    lora, model = adapted(tiny_path, moved=True)
    before = logits(model)
    with suppress(RuntimeError), lora.as_reference(model):
        assert torch.equal(logits(model), logits(load(tiny_path)))
        raise RuntimeError
    assert torch.equal(logits(model), before)
    assert all(p.requires_grad == ("lora_" in name) for name, p in model.named_parameters())


def test_frozen_weights_without_further_digits_are_held_in_half_the_memory_for_the_same_numbers(tiny_path):
    """And others, as of a checkpoint in float32, are not."""
    policies = {}
    for is_rounded in (True, False):
        for is_held in (True, False):
            lora, model = adapted(tiny_path, moved=True)
            for layer in model.modules():
                if is_rounded and hasattr(layer, "get_base_layer"):
                    weight = layer.get_base_layer().weight
                    weight.data = weight.data.to(torch.bfloat16).float()
            if is_held:
                lora.hold_frozen(model, torch.bfloat16)
            with torch.autocast("cpu", torch.bfloat16):
                model(TOKENS).logits.float().log_softmax(-1).square().mean().backward()
            gradients = [parameter.grad for parameter in lora.trainable(model)]
            num_bytes = sum(parameter.nbytes for parameter in model.parameters())
            policies[is_rounded, is_held] = gradients, dict(lora.named_weights(model)), num_bytes
    for is_rounded in (True, False):
        (*held, small), (*plain, large) = (policies[is_rounded, is_held] for is_held in (True, False))
        torch.testing.assert_close(held, plain, rtol=0, atol=0)
        assert all(bool(gradient.any()) for gradient in held[0])
        assert (small < 0.7 * large) if is_rounded else (small == large)


def test_a_run_in_bfloat16_holds_them_so(tiny_path, tmp_path):
    """From a checkpoint in bfloat16, through Lightning; in float32 nothing is held so."""
    load(tiny_path).to(torch.bfloat16).save_pretrained(tmp_path)
    for precision, expected in (("bf16-mixed", torch.bfloat16), ("32-true", torch.float32)):
        policy = unloaded(tmp_path, parameters=LoraParameters(rank=4))
        Trainer(**QUIET, precision=precision).fit(policy, datamodule=Batches(pack()))
        held = {layer.get_base_layer().weight.dtype for layer in policy.modules() if hasattr(layer, "get_base_layer")}
        assert held == {expected}
        assert {weight.dtype for _, weight in policy.named_weights()} == {torch.float32}


def test_a_checkpoint_continues_exactly_and_loads_in_peft(tiny_path, tmp_path):
    from peft import PeftModel

    lora, model = adapted(tiny_path, moved=True)
    lora.save(model, tmp_path)
    _, restored = adapted(tiny_path, checkpoint=tmp_path)
    assert torch.equal(logits(restored), logits(model))
    torch.testing.assert_close(logits(PeftModel.from_pretrained(load(tiny_path), tmp_path / "adapter")), logits(model))


def test_the_seed_makes_the_adapters_and_nothing_else_is_drawn(tiny_path):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    first, second, other = (dict(adapted(tiny_path, seed=seed)[1].named_parameters()) for seed in (0, 0, 1))
    assert torch.equal(torch.rand(2), expected)
    name = next(name for name in first if "lora_A" in name)
    assert torch.equal(first[name], second[name])
    assert not torch.equal(first[name], other[name])


def test_rank_stabilised_scale(tiny_path):
    _, model = adapted(tiny_path, rank=16, rank_stabilized=True)
    layer = next(module for _, module in model.named_modules() if hasattr(module, "get_delta_weight"))
    assert layer.scaling["default"] == pytest.approx(8.0 / 4.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "parameters.rank must be at least 1; got 0"),
        ({"alpha": -1.0}, "parameters.alpha must be positive and finite; got -1.0"),
        ({"target_modules": []}, r"parameters.target_modules must be a list of names; got \[\]"),
        ({"target_modules": "q_proj"}, "must be a list of names; got 'q_proj'"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        LoraParameters(**options)


def test_layers_that_do_not_exist_are_named_with_those_that_do(tiny_path):
    with pytest.raises(ValueError, match=r"names wqkv, and no linear layer of LlamaForCausalLM ends so.*q_proj"):
        adapted(tiny_path, target_modules=["q_proj", "wqkv"])


@pytest.mark.parametrize("named", [["lm_head"], ["q_proj", "lm_head"]])
@pytest.mark.parametrize("is_tied", [True, False])
def test_the_output_head_is_not_adapted_and_says_so(tiny_path, named, is_tied):
    """peft 0.21 merges an adapter of a tied head into the input embedding."""
    model = load(tiny_path)
    if not is_tied:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    with pytest.raises(ValueError, match=r"target_modules names lm_head, the output head, which is not adapted.*tied"):
        LoraParameters(target_modules=named).attach(model, None)


def test_a_checkpoint_of_other_adapters_is_refused(tiny_path, tmp_path):
    lora, model = adapted(tiny_path)
    lora.save(model, tmp_path)
    for options, message in (
        ({"rank": 8}, "continue with the rank and target_modules of the run"),
        ({"alpha": 16.0}, "were trained with parameters.alpha=8.*the policy's scale at once"),
        ({"rank_stabilized": True}, "were trained with parameters.rank_stabilized=False"),
        ({"checkpoint": tmp_path / "nothing"}, "it was trained with parameters=all"),
    ):
        with pytest.raises(ValueError, match=message):
            adapted(tiny_path, **{"checkpoint": tmp_path} | options)
