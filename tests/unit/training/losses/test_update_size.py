"""How much larger an update is with groups of 16 than with groups of 4, by how token terms are summed.

A policy with one parameter gives a right response of one token with probability sigmoid(theta). Every outcome of a
group goes through packing, advantage and loss, weighed by how likely it is, so the means are exact.
"""

from __future__ import annotations

import math

import pytest
import torch

from ada_lightning.methods.advantages import GroupNormalizedAdvantage, LeaveOneOutAdvantage
from ada_lightning.training.losses import ClippedPolicyLoss, ConstantReduction, PromptMeanReduction, TokenTerms
from tests.builders import make_group, packed

ADVANTAGES = {
    "grpo": GroupNormalizedAdvantage(normalize_std=True),
    "dr_grpo": GroupNormalizedAdvantage(normalize_std=False),
    "rloo": LeaveOneOutAdvantage(),
}
REDUCTIONS = {
    "constant": ConstantReduction(token_scale=8),
    "constant, token_scale x 4": ConstantReduction(token_scale=32),
    "prompt_mean": PromptMeanReduction(token_scale=8),
}


def gradient(advantage: str, reduction: str, pass_rate: float, num_right: int, size: int) -> float:
    """Of the loss by theta, for a step of one prompt."""
    group = make_group([1.0] * num_right + [0.0] * (size - num_right), num_tokens=[1] * size)
    batch = packed(group, advantage=ADVANTAGES[advantage])
    if not batch.microbatches:
        return 0.0
    (microbatch,) = batch.microbatches
    theta = torch.tensor(math.log(pass_rate / (1 - pass_rate)), dtype=torch.float64, requires_grad=True)
    sign_K = 2.0 * microbatch.is_positive_B.double() - 1.0
    logprobs_K = torch.nn.functional.logsigmoid(sign_K * theta)
    terms = TokenTerms(
        logprobs_K=logprobs_K,
        old_logprobs_K=logprobs_K.detach(),
        sampling_logprobs_K=logprobs_K.detach(),
        reference_logprobs_K=None,
        entropy_K=torch.zeros(size),
        response_K=torch.arange(size),
        mask_K=torch.ones(size),
    )
    loss, _ = ClippedPolicyLoss(reduction=REDUCTIONS[reduction])(
        terms, microbatch.advantage_B, microbatch, batch.counts
    )
    loss.backward()
    return float(theta.grad)


def mean_gradient(advantage: str, reduction: str, pass_rate: float, size: int) -> float:
    return sum(
        math.comb(size, right)
        * pass_rate**right
        * (1 - pass_rate) ** (size - right)
        * gradient(advantage, reduction, pass_rate, right, size)
        for right in range(size + 1)
    )


@pytest.mark.parametrize(
    ("advantage", "expected"),
    [
        ("rloo", {0.5: 4.0, 0.3: 4.0, 0.1: 4.0, 0.02: 4.0}),
        ("dr_grpo", {0.5: 5.0, 0.3: 5.0, 0.1: 5.0, 0.02: 5.0}),
        ("grpo", {0.5: 5.4, 0.3: 5.7, 0.1: 7.5, 0.02: 9.4}),
    ],
)
def test_by_default_groups_of_16_update_several_times_as_much_as_groups_of_4(advantage, expected):
    for pass_rate, ratio in expected.items():
        of_16, of_4 = (mean_gradient(advantage, "constant", pass_rate, size) for size in (16, 4))
        assert of_16 / of_4 == pytest.approx(ratio, abs=0.051)  # docs/methods.md has one decimal


@pytest.mark.parametrize(("of_16", "of_4"), [("prompt_mean", "prompt_mean"), ("constant, token_scale x 4", "constant")])
def test_the_mean_over_a_prompts_responses_makes_updates_of_leave_one_out_equal(of_16, of_4):
    """And a token scale in proportion to the group does. What is left is the advantage's own: (n-1)/n, its scaling."""
    for pass_rate, of_grpo in ((0.5, 1.3), (0.3, 1.4), (0.1, 1.9), (0.02, 2.3)):
        ratio = {
            name: mean_gradient(name, of_16, pass_rate, 16) / mean_gradient(name, of_4, pass_rate, 4)
            for name in ADVANTAGES
        }
        assert ratio["rloo"] == pytest.approx(1.0, rel=1e-4)
        assert ratio["dr_grpo"] == pytest.approx(1.25, rel=1e-4)
        assert ratio["grpo"] == pytest.approx(of_grpo, abs=0.051)
