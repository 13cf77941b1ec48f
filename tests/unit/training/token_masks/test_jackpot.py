"""Budgeted rejection on an enumerated vocabulary: what is kept, and what the weights make of it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from ada_lightning.training.losses import ClippedPolicyLoss, ConstantReduction, TokenTerms
from ada_lightning.training.token_masks import JackpotMask
from ada_lightning.training.token_masks.jackpot import acceptance_weight, budgeted_acceptance
from tests.builders import make_group, packed

P = torch.tensor([0.50, 0.25, 0.20, 0.05])  # the policy that trains
Q = torch.tensor([0.10, 0.30, 0.20, 0.40])  # what drew the tokens: ratios 5, 5/6, 1, 1/8
packed_all = partial(packed, keep_groups_without_signal=True)
SCALES = [0.5, 1.0, 2.0, 5.0, 8.0]


@pytest.mark.parametrize("scale", SCALES)
def test_kept_tokens_and_their_weights_are_what_is_promised(scale):
    acceptance = budgeted_acceptance(P / Q, scale=scale)
    kept = Q * acceptance
    torch.testing.assert_close(kept, torch.minimum(Q, P / scale))
    if scale >= 5.0:  # the largest p / q
        torch.testing.assert_close(kept / kept.sum(), P)
    if scale == 1.0:
        assert float(kept.sum()) == pytest.approx(1 - float((P - Q).abs().sum()) / 2)
    weight = acceptance_weight(P / Q, scale=scale, cap=math.inf)
    torch.testing.assert_close(kept * weight, P)  # so that any sum over all drawn tokens is that under p
    assert float(acceptance_weight(P / Q, scale=scale, cap=max(scale, 2.0)).max()) <= max(scale, 2.0)


def single_tokens(tokens, *, sampling=Q, logprobs=P, old=None):
    """One response of one token for each of ``tokens``."""
    sizes = [min(50, len(tokens) - first) for first in range(0, len(tokens), 50)]
    groups = [make_group([0.0] * size, slot=slot, num_tokens=[1] * size) for slot, size in enumerate(sizes)]
    batch = packed_all(*groups)
    (microbatch,) = batch.microbatches
    old = logprobs if old is None else old
    return batch, microbatch, terms_of(microbatch, *(x.log()[tokens] for x in (logprobs, old, sampling)))


def terms_of(microbatch, logprobs_K, old_logprobs_K, sampling_logprobs_K):
    zeros_K = torch.zeros_like(logprobs_K)
    return TokenTerms(
        logprobs_K=logprobs_K,
        old_logprobs_K=old_logprobs_K,
        sampling_logprobs_K=sampling_logprobs_K,
        reference_logprobs_K=zeros_K,
        entropy_K=zeros_K,
        response_K=microbatch.response_K,
        mask_K=torch.ones_like(logprobs_K),
    )


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_mask_keeps_that_share_of_each_token(scale):
    """4000 draws of each token; a share off by 4.5 standard errors would come in 7 of 10^6 seeds."""
    num = 4000
    tokens = torch.arange(4).repeat_interleave(num)
    _, microbatch, terms = single_tokens(tokens)
    kept = JackpotMask(acceptance_scale=scale, cap=math.inf, seed=1)(terms, torch.zeros(4 * num), microbatch) > 0
    expected = (P / (scale * Q)).clamp_max(1.0)
    for token in range(4):
        share, chance = float(kept[tokens == token].float().mean()), float(expected[token])
        assert abs(share - chance) <= 4.5 * math.sqrt(chance * (1 - chance) / num), token


def test_the_clipped_losses_gradient_is_the_on_policy_one():
    """Enumerated: token v is drawn with q_v and kept with a_v; without clip and cap the expectation is that under p."""
    logits = P.log().clone().requires_grad_()
    advantages = torch.tensor([1.0, -2.0, 0.5, 3.0])
    tokens = torch.arange(4)
    old = torch.tensor([0.3, 0.3, 0.2, 0.2])
    batch, microbatch, terms = single_tokens(tokens, old=old)
    terms = replace(terms, logprobs_K=logits.log_softmax(0))
    mask = JackpotMask(acceptance_scale=1.5, cap=math.inf)
    acceptance = budgeted_acceptance(P / Q, scale=1.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ada_lightning.training.token_masks.jackpot.seeded_uniform", lambda *keys, seed: torch.zeros(4))
        if_kept = mask(terms, advantages, microbatch)
    loss_function = ClippedPolicyLoss(
        reduction=ConstantReduction(token_scale=1), clip_low=1.0, clip_high=1e9, importance_cap=1e9
    )
    expected_mask = Q * acceptance * if_kept
    loss, _ = loss_function(replace(terms, mask_K=expected_mask), advantages, microbatch, batch.counts)
    loss.backward()
    on_policy = P.log().clone().requires_grad_()
    (-(P * advantages * on_policy.log_softmax(0)).sum()).backward()
    torch.testing.assert_close(logits.grad, on_policy.grad)


def test_the_cap_holds_for_the_whole_weight():
    tokens = torch.arange(4)
    _, microbatch, terms = single_tokens(tokens)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ada_lightning.training.token_masks.jackpot.seeded_uniform", lambda *keys, seed: torch.zeros(4))
        mask = JackpotMask(acceptance_scale=1.0, cap=2.0)(terms, torch.zeros(4), microbatch)
    torch.testing.assert_close(mask * P / Q, torch.tensor([2.0, 1.0, 1.0, 1.0]))


def test_on_policy_tokens_are_all_kept_with_weight_one():
    _, microbatch, terms = single_tokens(torch.arange(4), sampling=P)
    assert JackpotMask()(terms, torch.zeros(4), microbatch).tolist() == [1.0] * 4


def masks_by_response(batch, seed):
    """Mask of every response, by its identity: two tokens each, p/q of 1/2."""
    found = {}
    for microbatch in batch.microbatches:
        zeros_K = torch.zeros(len(microbatch.token_ids_K))
        terms = terms_of(microbatch, zeros_K - math.log(2), zeros_K, zeros_K)
        mask_K = JackpotMask(seed=seed)(terms, torch.zeros(len(microbatch.rewards_B)), microbatch)
        for index, identity in enumerate(microbatch.identity_B.tolist()):
            found[identity] = mask_K[microbatch.response_K == index].tolist()
    return found


def test_a_draw_belongs_to_its_token_whatever_the_split():
    groups = [make_group([1.0, 0.0] * 8, slot=slot, key=8, num_tokens=[3] * 16) for slot in range(2)]
    whole = masks_by_response(packed_all(*groups), seed=0)
    assert len(whole) == 32
    for options in ({"max_tokens_per_microbatch": 1}, {"share_prompts": False}):
        assert masks_by_response(packed_all(*groups, **options), seed=0) == whole
    assert masks_by_response(packed_all(*groups), seed=1) != whole
    assert len({tuple(mask) for mask in whole.values()}) == 8  # tokens of a response, too, are drawn apart


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acceptance_scale": 0.0}, "acceptance_scale must be positive and finite; got 0.0"),
        ({"acceptance_scale": math.inf, "cap": math.inf}, "acceptance_scale must be positive and finite"),
        ({"acceptance_scale": 3.0, "cap": 2.0}, "cap = 2.0 is less than acceptance_scale = 3.0"),
        ({"cap": math.nan}, "cap = nan"),
    ],
)
def test_settings_out_of_range_are_rejected(options, message):
    with pytest.raises(ValueError, match=f"token_masks.jackpot.{message}"):
        JackpotMask(**options)
