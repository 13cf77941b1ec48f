"""Where the engine samples from an older policy: what ratios are taken to, and what then bounds the update."""

from __future__ import annotations

import pytest
import torch

from ada_lightning.training.losses import CispoLoss, ClippedPolicyLoss, ConstantReduction, GspoLoss, RaftLoss
from ada_lightning.training.losses.terms import TokenTerms
from tests.builders import packed, random_group

CLIPS = {"clip_low": 0.2, "clip_high": 0.3}


def terms(batch, shift):
    """The current policy is ``shift`` nats a token from the one that sampled; it is its own proximal policy."""
    (microbatch,) = batch.microbatches
    logprobs_K = (microbatch.sampling_logprobs_K + shift).requires_grad_()
    return microbatch, TokenTerms(
        logprobs_K=logprobs_K,
        old_logprobs_K=logprobs_K.detach(),
        sampling_logprobs_K=microbatch.sampling_logprobs_K,
        reference_logprobs_K=logprobs_K.detach(),
        entropy_K=torch.zeros_like(logprobs_K),
        response_K=microbatch.response_K,
        mask_K=torch.ones_like(logprobs_K),
    )


def gradient(loss, shift, advantage):
    """Of the loss in the log-probabilities, over that of a ratio of 1 without any clip; and the logged sums."""
    batch = packed(random_group(3, [1.0, 1.0]), keep_groups_without_signal=True)
    microbatch, given = terms(batch, shift)
    advantages_B = torch.full((2,), advantage)
    value, sums = loss(given, advantages_B, microbatch, batch.counts)
    value.backward()
    plain_K = -loss.reduction.token_weights(microbatch, batch.counts)[given.response_K] * advantage
    return given.logprobs_K.grad / plain_K, sums


@pytest.mark.parametrize(
    ("kind", "clips", "shift", "advantage", "weight"),
    [
        (ClippedPolicyLoss, CLIPS, 0.2, 1.0, 1.2214),  # within the clip: the ratio itself
        (ClippedPolicyLoss, CLIPS, 0.3, 1.0, 0.0),  # 1.35 > 1.3, and would go on
        (ClippedPolicyLoss, CLIPS, 0.3, -1.0, 1.3499),  # comes back
        (ClippedPolicyLoss, CLIPS, -0.3, -1.0, 0.0),  # 0.74 < 0.8, and would go on
        (GspoLoss, CLIPS, 0.3, 1.0, 0.0),
        (GspoLoss, CLIPS, 0.2, 1.0, 1.2214),
        (CispoLoss, CLIPS, 0.3, 1.0, 1.3),  # bounded, never dropped
        (RaftLoss, {"clip_high": 0.3}, 0.3, 1.0, 0.0),
    ],
)
def test_with_the_behaviour_as_anchor_the_first_update_is_weighed_and_bounded(kind, clips, shift, advantage, weight):
    loss = kind(reduction=ConstantReduction(token_scale=4), anchor="behaviour", importance_cap=0.0, **clips)
    found_K, sums = gradient(loss, shift, advantage)
    assert found_K.tolist() == pytest.approx([weight] * len(found_K), abs=1e-3)
    # How far engine and trainer are apart is told all the same.
    assert float(sums["logprob_gap"]) == pytest.approx(abs(shift) * len(found_K), rel=1e-4)
    proximal = kind(reduction=ConstantReduction(token_scale=4), importance_cap=0.0, **clips)
    assert gradient(proximal, shift, advantage)[0].tolist() == pytest.approx([1.0] * len(found_K))  # clips nothing


def test_what_the_anchor_leaves_without_effect_is_refused():
    with pytest.raises(ValueError, match=r"use loss\.importance_cap=0"):
        ClippedPolicyLoss(reduction=ConstantReduction(token_scale=4), anchor="behaviour", importance_cap=2.0)
    with pytest.raises(ValueError, match="proximal or behaviour"):
        ClippedPolicyLoss(reduction=ConstantReduction(token_scale=4), anchor="engine")
