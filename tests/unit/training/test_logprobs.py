from __future__ import annotations

import pytest
import torch

from ada_lightning.training import logprobs
from ada_lightning.training.logprobs import chosen_logprobs
from tests.device import DEVICE

CLOSE = {"atol": 2e-6, "rtol": 1e-5}  # float32 sums over 11 logits: a few roundings of 1.2e-7


def naive(hidden_KH, token_ids_K, head, temperature):
    log_softmax_KV = (head(hidden_KH).float() / temperature).log_softmax(-1)
    return log_softmax_KV[torch.arange(len(token_ids_K)), token_ids_K], -(log_softmax_KV.exp() * log_softmax_KV).sum(-1)


def example(*, bias=False):
    torch.manual_seed(0)
    hidden_KH = torch.randn(7, 5, device=DEVICE, requires_grad=True)
    head = torch.nn.Linear(5, 11, bias=bias).to(DEVICE)
    return hidden_KH, torch.randint(11, (7,), device=DEVICE), head, *torch.randn(2, 7, device=DEVICE)


def gradients(loss, hidden_KH, head):
    return torch.autograd.grad(loss, [hidden_KH, *head.parameters()])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("chunk_size", [1, 3, 7, 100])
def test_chunks_give_the_values_and_gradients_of_a_plain_log_softmax(chunk_size, bias, monkeypatch):
    monkeypatch.setattr(logprobs, "_BLOCK_NUMBERS", 22)  # two rows at a time, so that chunks are cut as well
    hidden_KH, token_ids_K, head, weights_K, entropy_weights_K = example(bias=bias)
    ours = chosen_logprobs(hidden_KH, token_ids_K, head, temperature=0.7, chunk_size=chunk_size)
    expected = naive(hidden_KH, token_ids_K, head, 0.7)
    torch.testing.assert_close(ours, expected, **CLOSE)
    both = [logprobs_K @ weights_K + entropy_K @ entropy_weights_K for logprobs_K, entropy_K in (ours, expected)]
    torch.testing.assert_close(*(gradients(loss, hidden_KH, head) for loss in both), **CLOSE)


@pytest.mark.parametrize("index", [0, 1])
def test_each_result_has_its_own_gradient(index):
    hidden_KH, token_ids_K, head, weights_K, _ = example()
    ours = chosen_logprobs(hidden_KH, token_ids_K, head, temperature=0.7, chunk_size=3)[index] @ weights_K
    expected = naive(hidden_KH, token_ids_K, head, 0.7)[index] @ weights_K
    torch.testing.assert_close(gradients(ours, hidden_KH, head), gradients(expected, hidden_KH, head), **CLOSE)


def test_entropy_without_gradient_is_the_same_number():
    hidden_KH, token_ids_K, head, _, _ = example()
    options = {"temperature": 0.7, "chunk_size": 3}
    logprobs_K, entropy_K = chosen_logprobs(hidden_KH, token_ids_K, head, entropy_gradient=False, **options)
    assert logprobs_K.requires_grad
    assert not entropy_K.requires_grad
    torch.testing.assert_close(entropy_K, chosen_logprobs(hidden_KH, token_ids_K, head, **options)[1], atol=0, rtol=0)


def test_a_frozen_head_and_frozen_hidden_states_get_no_gradient():
    hidden_KH, token_ids_K, head, weights_K, _ = example()
    head.requires_grad_(False)
    (chosen_logprobs(hidden_KH, token_ids_K, head, temperature=1.0, chunk_size=3)[0] @ weights_K).backward()
    assert head.weight.grad is None
    assert hidden_KH.grad is not None


def test_under_autocast_only_products_are_rounded():
    """bf16 keeps 8 bits: each of the rounded inputs and logits (below 4) is off by at most 2**-9 of itself."""
    hidden_KH, token_ids_K, head, weights_K, _ = example()
    with torch.autocast("cpu", torch.bfloat16):
        logprobs_K, entropy_K = chosen_logprobs(hidden_KH, token_ids_K, head, temperature=1.0, chunk_size=3)
    assert (logprobs_K.dtype, entropy_K.dtype) == (torch.float32, torch.float32)
    torch.testing.assert_close(logprobs_K, naive(hidden_KH, token_ids_K, head, 1.0)[0], atol=4 * 3 * 2**-9, rtol=0)
    (logprobs_K @ weights_K).backward()
    assert (hidden_KH.grad.dtype, head.weight.grad.dtype) == (torch.float32, torch.float32)


def test_no_more_than_a_chunk_of_logits_is_kept_for_the_backward_pass():
    hidden_KH, token_ids_K, head, _, _ = example()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.shape) or tensor, lambda x: x):
        chosen_logprobs(hidden_KH, token_ids_K, head, temperature=1.0, chunk_size=3)
    assert [tuple(shape) for shape in kept if shape[-1] == 11] == [(1, 11)]  # 7 tokens: the last chunk holds one


def test_counts_must_agree():
    with pytest.raises(ValueError, match="2 hidden states for 3 tokens"):
        chosen_logprobs(
            torch.zeros(2, 1), torch.zeros(3, dtype=torch.int64), torch.nn.Linear(1, 4), temperature=1.0, chunk_size=1
        )
