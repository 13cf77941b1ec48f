from __future__ import annotations

import pytest
import torch

from ada_lightning.methods.gradient_norms import output_score_norms

LENGTHS = [3, 1, 5]


def made(has_bias):
    generator = torch.Generator().manual_seed(0)
    head = torch.nn.Linear(6, 11, bias=has_bias)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    hidden = torch.randn(9, 6, generator=generator)
    return hidden, torch.randint(11, (9,), generator=generator), head


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("chunk_size", [1, 4, 11, 100])
def test_it_is_the_norm_of_autograd(has_bias, temperature, chunk_size):
    hidden, tokens, head = made(has_bias)
    norms = output_score_norms(hidden, tokens, LENGTHS, head, temperature=temperature, chunk_size=chunk_size)
    first = 0
    for length, norm in zip(LENGTHS, norms, strict=True):
        part = slice(first, first + length)
        logprobs = (head(hidden[part]) / temperature).log_softmax(-1).gather(-1, tokens[part, None])
        (gradient,) = torch.autograd.grad(logprobs.sum(), head.weight)
        torch.testing.assert_close(norm, gradient.norm(), rtol=1e-5, atol=0)
        first += length


def test_a_certain_token_has_no_score():
    """The difference 1 - pi is taken token by token, so it does not drown in a sum of squares."""
    head = torch.nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[7.0], [0.0]]))
    (norm,) = output_score_norms(torch.ones(1, 1), torch.tensor([0]), [1], head, temperature=1.0, chunk_size=2)
    exact = 2**0.5 / (1 + torch.tensor(7.0, dtype=torch.float64).exp())
    assert float(norm) == pytest.approx(float(exact), rel=1e-3)


def test_half_precision_is_not_used_where_autocast_would():
    hidden, tokens, head = made(has_bias=False)
    plain = output_score_norms(hidden, tokens, LENGTHS, head, temperature=1.0, chunk_size=4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        again = output_score_norms(hidden, tokens, LENGTHS, head, temperature=1.0, chunk_size=4)
    torch.testing.assert_close(plain, again, rtol=0, atol=0)


def test_lengths_that_do_not_fit_are_refused():
    hidden, tokens, head = made(has_bias=False)
    with pytest.raises(ValueError, match="lengths add up to 8 for 9 tokens and 9 hidden states"):
        output_score_norms(hidden, tokens, [3, 5], head, temperature=1.0, chunk_size=4)
