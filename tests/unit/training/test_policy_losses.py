"""All losses on a real, tiny Llama in float32: one gradient on the policy that sampled, figures of one update."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from ada_lightning.methods.advantages import PoolMeanAdvantage
from ada_lightning.training.attention import SdpaAttention
from ada_lightning.training.policy import PolicyModule
from tests.unit.training.losses.two_responses import LOSSES, make_loss
from tests.unit.training.test_policy import EXACT, fit, gradients, pack

UNCHANGED = [name for name in LOSSES if name not in ("raft", "clipped")]


def make_policy(tiny_path, name, **options):
    policy = PolicyModule(
        model_path=tiny_path,
        reference_path=tiny_path,
        advantage=PoolMeanAdvantage(),
        loss=make_loss(name, **options),
        attention=SdpaAttention(),
        optimizer=partial(torch.optim.SGD, lr=0.1),
        logprob_chunk_size=4,
        max_grad_norm=math.inf,
    )
    policy.configure_model()
    return policy


def sampled_by(policy, batches):
    """The same responses, with the policy's own log-probabilities as the engine's."""
    return [replace(batch, microbatches=tuple(sampled(policy, m) for m in batch.microbatches)) for batch in batches]


@torch.no_grad()
def sampled(policy, microbatch):
    return replace(microbatch, sampling_logprobs_K=policy.token_logprobs(policy.model, microbatch)[0])


@pytest.mark.parametrize("name", UNCHANGED)
def test_on_policy_all_losses_have_one_gradient(tiny_path, name):
    policy, clipped = make_policy(tiny_path, name), make_policy(tiny_path, "clipped")
    batches = sampled_by(policy, pack())
    ours = gradients(policy, batches)
    torch.testing.assert_close(ours, gradients(clipped, batches), **EXACT)
    assert max(float(g.abs().max()) for g in ours.values()) > 1e-4


def test_maxima_are_logged_as_they_are_and_not_per_token(tiny_path):
    policy = make_policy(tiny_path, "divergence_tv")
    (batch,) = pack()
    probability_K = policy.token_logprobs(policy.model, batch.microbatches[0])[0].exp()
    gap_K = (probability_K - math.exp(-5.5)).abs()  # the engine's log-probabilities are -5.5
    fit(policy, [batch])
    assert policy.update_metrics["train/divergence_max"] == pytest.approx(float(gap_K.max()), rel=1e-3)
    assert policy.update_metrics["train/divergence"] == pytest.approx(float(gap_K.mean()), rel=1e-3)
