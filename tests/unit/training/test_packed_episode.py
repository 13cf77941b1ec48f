"""Tokens of an environment pass through the policy and never train."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ada_lightning.core.episode import Episode, Turn
from ada_lightning.core.records import KeptResponse, ResponseGroup
from ada_lightning.training.updates.guard import halved
from tests.builders import make_group, packed

MASK = (True, False, False, True, True, False)


def with_episode(group, *masks):
    """The group, its responses as episodes with these masks."""
    pool = group.pool
    pool.responses = [
        replace(response, episode=Episode((Turn("a", "b"), Turn("c")), mask, "done"))
        for response, mask in zip(pool.responses, masks, strict=True)
    ]
    return ResponseGroup(pool, tuple(KeptResponse(response, 1.0) for response in pool.responses))


def mixed():
    return with_episode(make_group([1.0, 0.0], num_tokens=[6, 3]), MASK, (True, True, True))


def test_only_what_the_model_drew_is_predicted_and_all_of_it_is_computed():
    batch = packed(mixed())
    (microbatch,) = batch
    assert microbatch.input_ids_T.tolist() == [7, 0, 0, 5, 6, 7, 8, 9, 10, 5, 6, 7]
    assert microbatch.document_lengths == ((3, 6, 3),)
    assert microbatch.predictor_K.tolist() == [2, 5, 6, 2, 9, 10]  # the first token of a turn by the environment's last
    assert microbatch.token_ids_K.tolist() == [5, 8, 9, 5, 6, 7]
    assert microbatch.response_K.tolist() == [0, 0, 0, 1, 1, 1]
    assert microbatch.num_tokens_B.tolist() == [3.0, 3.0]
    torch.testing.assert_close(microbatch.sampling_logprobs_K, torch.tensor([-0.1, -0.4, -0.5, -0.1, -0.2, -0.3]))
    assert batch.counts.num_response_tokens == 6
    assert [part.predictor_K.tolist() for part in halved(microbatch)] == [[2, 5, 6], [2, 3, 4]]


def test_an_episode_without_a_token_of_the_model_does_not_train():
    (microbatch,) = packed(with_episode(make_group([1.0, 0.0], num_tokens=[2, 2]), (False, False), (True, False)))
    assert microbatch.num_tokens_B.tolist() == [1.0]


@pytest.fixture
def policy(tiny_path):
    from transformers import AutoModelForCausalLM

    # Sums over other lengths round differently, by a few 1e-6 of float32; what is asked is whether anything changes.
    return AutoModelForCausalLM.from_pretrained(tiny_path, dtype=torch.float64)


def gradient(policy, microbatch):
    """Of the sum of log-probabilities of what trains, in one pass over a single document."""
    policy.zero_grad()
    logits = policy(microbatch.input_ids_T[None], position_ids=microbatch.position_ids_T[None]).logits[0]
    logprobs_K = logits[microbatch.predictor_K].log_softmax(-1)
    logprobs_K.gather(1, microbatch.token_ids_K[:, None]).sum().backward()
    return torch.cat([parameter.grad.flatten() for parameter in policy.parameters()])


def test_what_an_environment_says_last_changes_no_gradient_and_what_it_says_between_does(policy):
    def of(mask, ids):
        group = with_episode(make_group([1.0, 0.0], num_tokens=[len(ids), 1]), mask, (True,))
        response = replace(group.kept[0].response, response_ids=ids)
        (microbatch,) = packed(replace(group, kept=(replace(group.kept[0], response=response),)))
        return gradient(policy, microbatch)

    without, last, other = (
        of((True, False, True) + (False,) * len(tail), (5, 6, 7, *tail)) for tail in ((), (8, 9), (10,))
    )
    torch.testing.assert_close(last, without, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(other, without, rtol=1e-9, atol=1e-12)
    assert (of((True, False, True), (5, 60, 7)) - without).abs().max() > 1e-3
