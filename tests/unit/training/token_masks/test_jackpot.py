"""Budgeted rejection on an enumerated vocabulary: what is kept, and what the weights make of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from ada_lightning.training.losses import ClippedPolicyLoss, ConstantReduction, TokenTerms
from ada_lightning.training.token_masks import JackpotMask
from ada_lightning.training.token_masks.rejection import acceptance_weight, budgeted_acceptance
from tests.builders import make_group
from tests.unit.training.losses.test_flow import packed

P = torch.tensor([0.50, 0.25, 0.20, 0.05])  # the policy that trains
Q = torch.tensor([0.10, 0.30, 0.20, 0.40])  # what drew the tokens: ratios 5, 5/6, 1, 1/8
SCALES = [0.5, 1.0, 2.0, 5.0, 8.0]


@pytest.mark.parametrize("scale", SCALES)
def test_kept_tokens_follow_the_distribution_that_is_promised(scale):
    acceptance = budgeted_acceptance(P.log(), Q.log(), scale=scale)
    kept = Q * acceptance
    share = torch.minimum(Q, P / scale)
    torch.testing.assert_close(kept, share)
    if scale >= 5.0:  # the largest p / q
        torch.testing.assert_close(kept / kept.sum(), P)
    if scale == 1.0:
        assert float(kept.sum()) == pytest.approx(1 - float((P - Q).abs().sum()) / 2)


def test_a_larger_scale_keeps_fewer_and_comes_closer():
    shares, distances = [], []
    for scale in SCALES:
        kept = Q * budgeted_acceptance(P.log(), Q.log(), scale=scale)
        shares.append(float(kept.sum()))
        distances.append(float((P * (P / (kept / kept.sum())).log()).sum()))
    assert shares == sorted(shares, reverse=True)
    assert distances == sorted(distances, reverse=True)
    assert shares[0] > shares[-1]
    assert distances[-1] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("scale", SCALES)
def test_weights_make_the_sum_over_all_drawn_tokens_right(scale):
    values = torch.tensor([1.0, -2.0, 0.5, 3.0])
    acceptance = budgeted_acceptance(P.log(), Q.log(), scale=scale)
    weight = acceptance_weight(P.log(), Q.log(), scale=scale, cap=math.inf)
    assert float((Q * acceptance * weight * values).sum()) == pytest.approx(float((P * values).sum()), rel=1e-6)
    capped = acceptance_weight(P.log(), Q.log(), scale=scale, cap=max(scale, 2.0))
    assert float(capped.max()) <= max(scale, 2.0)


def single_tokens(tokens, *, sampling=Q, logprobs=P, old=None):
    """One response of one token for each of ``tokens``."""
    sizes = [min(50, len(tokens) - first) for first in range(0, len(tokens), 50)]
    groups = [make_group([0.0] * size, slot=slot, num_tokens=[1] * size) for slot, size in enumerate(sizes)]
    batch = packed(*groups, max_tokens_per_microbatch=10**6)
    (microbatch,) = batch.microbatches
    terms = TokenTerms(
        logprobs_K=logprobs.log()[tokens],
        old_logprobs_K=(logprobs if old is None else old).log()[tokens],
        sampling_logprobs_K=sampling.log()[tokens],
        reference_logprobs_K=torch.zeros(len(tokens)),
        entropy_K=torch.zeros(len(tokens)),
        response_K=microbatch.response_K,
        mask_K=torch.ones(len(tokens)),
    )
    return batch, microbatch, terms


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
    acceptance = budgeted_acceptance(P.log(), Q.log(), scale=1.5)
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
        num = len(microbatch.token_ids_K)
        terms = TokenTerms(
            logprobs_K=torch.full((num,), -math.log(2)),
            old_logprobs_K=torch.zeros(num),
            sampling_logprobs_K=torch.zeros(num),
            reference_logprobs_K=torch.zeros(num),
            entropy_K=torch.zeros(num),
            response_K=microbatch.response_K,
            mask_K=torch.ones(num),
        )
        mask_K = JackpotMask(seed=seed)(terms, torch.zeros(len(microbatch.rewards_B)), microbatch)
        for index, identity in enumerate(microbatch.identity_B.tolist()):
            found[identity] = mask_K[microbatch.response_K == index].tolist()
    return found


def test_a_draw_belongs_to_its_token_whatever_the_split():
    groups = [make_group([1.0, 0.0] * 8, slot=slot, key=8, num_tokens=[3] * 16) for slot in range(2)]
    whole = masks_by_response(packed(*groups), seed=0)
    assert len(whole) == 32
    for options in ({"max_tokens_per_microbatch": 1}, {"share_prompts": False}):
        assert masks_by_response(packed(*groups, **options), seed=0) == whole
    assert masks_by_response(packed(*groups), seed=1) != whole
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
