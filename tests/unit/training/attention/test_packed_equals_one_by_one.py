"""Packed microbatches against the architectures' own forward passes, one sequence at a time, in float32."""

from __future__ import annotations

import pytest
import torch

from ada_lightning.training.attention import PackedAttention, layout
from ada_lightning.training.attention import packed as attention
from ada_lightning.training.logprobs import chosen_logprobs
from tests.builders import packed as batch_of
from tests.builders import random_group
from tests.device import DEVICE
from tests.unit.training.attention.reference_varlen import varlen_attn

CLOSE = {"atol": 1e-4, "rtol": 1e-4}  # the requirement; float32 sums in another order stay far below it
SIZES = {
    "vocab_size": 256, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "initializer_range": 0.2,
    "max_position_embeddings": 128, "attn_implementation": "eager",
}  # fmt: skip
GROUPS = [random_group(1, [1.0, 0.0, 0.0, 0.0]), random_group(2, [0.0, 1.0]), random_group(3, [1.0, 0.0, 1.0])]


def llama(**changes):
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**{"num_attention_heads": 4, "num_key_value_heads": 2} | SIZES | changes))


def qwen2(**changes):
    from transformers import Qwen2Config, Qwen2ForCausalLM

    heads = {"hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 2}
    return Qwen2ForCausalLM(Qwen2Config(**SIZES | heads | changes))


def qwen3(**changes):
    """Heads of 32 where 64 / 4 is 16, with normalised queries and keys."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(num_attention_heads=4, num_key_value_heads=1, head_dim=32, **SIZES | changes))


def long_theta(**changes):
    """Llama 3's scaled rotary positions, one head for each query head."""
    rope = {
        "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    }  # fmt: skip
    return llama(num_key_value_heads=4, rope_parameters=rope, **changes)


def sliding(**changes):
    """A window shorter than most sequences, in every second layer."""
    types = ["sliding_attention", "full_attention", "sliding_attention"]
    return qwen2(use_sliding_window=True, sliding_window=6, layer_types=types, **changes)


ARCHITECTURES = [llama, qwen2, qwen3, long_theta, sliding]
CASES = [(share_prompts, short) for share_prompts in (True, False) for short in (256, 20, 1)]
"""Whether prompts are shared, and the longest document that is taken for a short one."""


def microbatch_of(*, share_prompts):
    batch = batch_of(*GROUPS, keep_groups_without_signal=True, share_prompts=share_prompts)
    return batch.microbatches[0].to(DEVICE)


def packed(model, microbatch):
    backend = PackedAttention()
    model.set_attn_implementation(backend.implementation)
    hidden_1TH = model.base_model(
        input_ids=microbatch.input_ids_T[None],
        position_ids=microbatch.position_ids_T[None],
        use_cache=False,
        **backend.arguments(microbatch),
    ).last_hidden_state
    logprobs_K, _ = chosen_logprobs(
        hidden_1TH[0, microbatch.predictor_K], microbatch.token_ids_K, model.lm_head, temperature=1.0, chunk_size=8
    )
    return logprobs_K


def one_by_one(model, microbatch):
    """The architecture's eager attention on one prompt and response at a time: no packing, no mask of ours."""
    model.set_attn_implementation("eager")
    expected, first = [], 0
    for num_prompt, *responses in microbatch.document_lengths:
        prompt_ids = microbatch.input_ids_T[first : first + num_prompt]
        first += num_prompt
        for num_tokens in responses:
            ids = torch.cat([prompt_ids, microbatch.input_ids_T[first : first + num_tokens]])
            first += num_tokens
            log_softmax_TV = model(input_ids=ids[None], use_cache=False).logits[0].float().log_softmax(-1)
            expected.append(log_softmax_TV[num_prompt - 1 : -1].gather(-1, ids[num_prompt:, None]).squeeze(-1))
    return torch.cat(expected)


def gradients(model, logprobs_K):
    weights_K = torch.linspace(-1, 1, len(logprobs_K), device=DEVICE)
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(logprobs_K @ weights_K, parameters), strict=True))


@pytest.fixture(autouse=True)
def _same_weights():
    torch.manual_seed(0)


@pytest.mark.thinned(15)
@pytest.mark.parametrize(("share_prompts", "short"), CASES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_logprobs_and_gradients_are_those_of_one_sequence_at_a_time(architecture, share_prompts, short, monkeypatch):
    monkeypatch.setattr(layout, "SHORT", short)
    monkeypatch.setattr(attention, "ONE_MASK", 0 if short == 1 else 30)
    model, microbatch = architecture().to(DEVICE), microbatch_of(share_prompts=share_prompts)
    if short == 20 and share_prompts:
        assert {len(parts) for parts in microbatch.document_lengths if sum(parts) > short}
    ours, expected = packed(model, microbatch), one_by_one(model, microbatch)
    torch.testing.assert_close(ours, expected, **CLOSE)
    found, wanted = gradients(model, ours), gradients(model, expected)
    assert min(float(gradient.abs().max()) for gradient in wanted.values()) > 1e-2  # far above the tolerance
    torch.testing.assert_close(found, wanted, **CLOSE)


@pytest.mark.parametrize("share_prompts", [True, False])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_one_kernel_attends_to_all_documents(architecture, share_prompts, monkeypatch):
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    monkeypatch.setattr(attention, "can_attend", lambda query: True)
    model, microbatch = architecture().to(DEVICE), microbatch_of(share_prompts=share_prompts)
    ours, expected = packed(model, microbatch), one_by_one(model, microbatch)
    torch.testing.assert_close(ours, expected, **CLOSE)
    torch.testing.assert_close(gradients(model, ours), gradients(model, expected), **CLOSE)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("way", ["short", "long", *["the device's"] * (DEVICE == "cuda")])  # a CPU's is the first
@pytest.mark.parametrize("share_prompts", [True, False])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_half_precision_is_as_far_off_as_the_architectures_own(architecture, share_prompts, way, monkeypatch):
    """On a GPU the device's way is torch's kernel, which knows half precision only."""
    if way != "the device's":
        monkeypatch.setattr(attention, "can_attend", lambda query: False)
        monkeypatch.setattr(layout, "SHORT", 256 if way == "short" else 1)
    elif DEVICE == "cuda":
        monkeypatch.setattr(attention, "attend_short", None)
        monkeypatch.setattr(attention, "attend_long", None)
    model, microbatch = architecture().to(DEVICE), microbatch_of(share_prompts=share_prompts)
    exact = one_by_one(model, microbatch)
    wanted = gradients(model, exact)
    with torch.autocast(DEVICE, torch.bfloat16):
        ours, own = packed(model, microbatch), one_by_one(model, microbatch)
    found, usual = gradients(model, ours), gradients(model, own)
    assert (ours - exact).norm() < 2 * (own - exact).norm()  # rounding of the same size: each is a draw of it
    error, usual_error = (
        sum(float((some[name] - gradient).square().sum()) for name, gradient in wanted.items()) ** 0.5
        for some in (found, usual)
    )
    assert 0 < error < 2 * usual_error
