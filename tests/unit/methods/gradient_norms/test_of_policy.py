"""Every provider against brute force on a real, tiny Llama in float32."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from ada_lightning.core.records import Prompt, ResponsePool
from ada_lightning.methods.gradient_norms import ConstantNorm, EmbedTokensNorm, LmHeadNorm
from tests.builders import make_pool, make_response
from tests.unit.training.test_policy import make_policy, random_group

TEMPERATURE = 0.8
POOLS = [
    random_group(1, [1.0, 0.0, 1.0, 1.0]).pool,
    random_group(2, [0.0, 0.0]).pool,
    random_group(3, [0.0, 1.0]).pool,
]


@pytest.fixture(params=["tied", "untied"])
def policy(tiny_path, request, monkeypatch):
    policy = make_policy(tiny_path, temperature=TEMPERATURE)
    if request.param == "untied":
        generator = torch.Generator().manual_seed(1)
        head = policy.model.get_output_embeddings()
        head.weight = torch.nn.Parameter(torch.randn(head.weight.shape, generator=generator) * 0.02)
    is_tied = policy.model.get_output_embeddings().weight is policy.model.get_input_embeddings().weight
    assert is_tied == (request.param == "tied")
    monkeypatch.setattr(policy, "forward_context", nullcontext)  # no trainer is attached
    return policy


def log_probability(policy, pool, response, head_weight):
    """A plain forward pass of one response, with output weights of its own."""
    ids = (*pool.prompt.prompt_ids, *response.response_ids)
    hidden = policy.model.base_model(input_ids=torch.tensor([ids])).last_hidden_state[0]
    log_softmax = (hidden @ head_weight.T / TEMPERATURE).log_softmax(-1)
    start = len(pool.prompt.prompt_ids) - 1
    return sum(log_softmax[start + i, token] for i, token in enumerate(response.response_ids))


def mean_norm(policy, pool, of):
    head, norms = policy.model.get_output_embeddings().weight, []
    if of == "lm_head":
        head = head.detach().clone().requires_grad_()
    by = head if of == "lm_head" else policy.model.get_input_embeddings().weight
    for response in (response for response in pool.responses if response.is_positive):
        (gradient,) = torch.autograd.grad(log_probability(policy, pool, response, head), by)
        norms.append(float(gradient.norm()))
    return sum(norms) / len(norms) if norms else 0.0


def measure(provider, policy):
    provider.connect(policy)
    return provider.measure(POOLS)


@pytest.mark.parametrize("max_tokens", [1, 25, 10_000])
def test_the_closed_form_is_the_gradient_of_the_output_layer(policy, max_tokens):
    measured = measure(LmHeadNorm(max_tokens=max_tokens, chunk_size=100), policy)
    expected = [mean_norm(policy, pool, "lm_head") for pool in POOLS]
    assert expected[1] == 0
    assert min(expected[0], expected[2]) > 0.1
    assert measured == pytest.approx(expected, rel=1e-4)


def test_the_backward_pass_is_the_gradient_of_the_input_embeddings(policy):
    measured = measure(EmbedTokensNorm(), policy)
    assert measured == pytest.approx([mean_norm(policy, pool, "embed_tokens") for pool in POOLS], rel=1e-4)
    assert all(parameter.grad is None for parameter in policy.model.parameters())


@pytest.mark.parametrize("provider", [LmHeadNorm(), EmbedTokensNorm()], ids=lambda provider: type(provider).__name__)
def test_it_can_be_asked_where_gradients_are_switched_off_and_leaves_none(policy, provider):
    with torch.no_grad():
        measured = measure(provider, policy)
    assert measured == pytest.approx(provider.measure(POOLS))
    assert set(policy.clock.step_seconds()) == {"gradient_norm"}


def test_an_interrupt_stops_between_forward_passes(policy):
    def stop():
        raise KeyboardInterrupt

    policy.interrupt_check = stop
    with pytest.raises(KeyboardInterrupt):
        measure(LmHeadNorm(), policy)


@pytest.mark.parametrize("provider", [LmHeadNorm, EmbedTokensNorm])
def test_without_a_policy_only_pools_without_positives_can_be_measured(provider):
    empty = ResponsePool(Prompt("p", ()), 0)
    assert provider().measure([empty, make_pool([0.0])]) == [0.0, 0.0]
    without_tokens = make_pool([])
    without_tokens.add(make_response(0, 1.0, num_tokens=0))
    assert provider().measure([without_tokens]) == [0.0]
    with pytest.raises(RuntimeError, match=r"needs the policy and none is connected.*use gradient_norm=constant"):
        provider().measure([make_pool([1.0])])


def test_the_constant_asks_nobody():
    assert measure(ConstantNorm(), None) == [1.0, 1.0, 1.0]


def test_sizes_that_cannot_work_are_rejected():
    with pytest.raises(ValueError, match=r"gradient_norm.max_tokens must be at least 1; got 0"):
        EmbedTokensNorm(max_tokens=0)
    with pytest.raises(ValueError, match=r"gradient_norm.chunk_size must be at least 1; got 0"):
        LmHeadNorm(chunk_size=0)
