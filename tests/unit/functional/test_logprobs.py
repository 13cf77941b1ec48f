from __future__ import annotations

import pytest
import torch

from ada_lightning.functional.logprobs import chosen_logprobs


@pytest.mark.parametrize("chunk_size", [1, 3, 100])
def test_chunks_give_the_values_and_gradients_of_a_plain_log_softmax(chunk_size):
    torch.manual_seed(0)
    hidden_KH = torch.randn(7, 5, requires_grad=True)
    head = torch.nn.Linear(5, 11, bias=False)
    token_ids_K = torch.randint(11, (7,))
    coefficients_K, entropy_coefficients_K = torch.randn(7), torch.randn(7)

    logprobs_K, entropy_K = chosen_logprobs(hidden_KH, token_ids_K, head, temperature=0.7, chunk_size=chunk_size)
    (logprobs_K @ coefficients_K + entropy_K @ entropy_coefficients_K).backward()
    gradients = hidden_KH.grad.clone(), head.weight.grad.clone()
    hidden_KH.grad = head.weight.grad = None

    log_softmax_KV = (head(hidden_KH) / 0.7).log_softmax(-1)
    expected_K = log_softmax_KV[torch.arange(7), token_ids_K]
    expected_entropy_K = -(log_softmax_KV.exp() * log_softmax_KV).sum(-1)
    (expected_K @ coefficients_K + expected_entropy_K @ entropy_coefficients_K).backward()

    # float32 sums over 11 logits: a few roundings of 1.2e-7
    torch.testing.assert_close(logprobs_K, expected_K, atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(entropy_K, expected_entropy_K, atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(gradients, (hidden_KH.grad, head.weight.grad), atol=2e-6, rtol=1e-5)


def test_counts_must_agree():
    with pytest.raises(ValueError, match="2 hidden states for 3 tokens"):
        chosen_logprobs(
            torch.zeros(2, 1), torch.zeros(3, dtype=torch.int64), torch.nn.Identity(), temperature=1.0, chunk_size=1
        )
