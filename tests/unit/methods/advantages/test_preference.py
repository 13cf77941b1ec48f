"""Preferences between a prompt's own responses: the update is the gradient of the loss of pairs itself."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import partial
from itertools import combinations

import numpy as np
import pytest
import torch

from ada_lightning.methods.advantages import BatchWhitenedAdvantage
from ada_lightning.methods.published.preference import DpoAdvantage, IpoAdvantage
from ada_lightning.methods.published.reward_distillation import RewardDistillationAdvantage
from ada_lightning.training.losses import ConstantReduction, ReinforceLoss
from tests.builders import assigned, make_group, random_group, weighed
from tests.unit.training.test_policy import make_policy, pack

BETA = 0.7
GROUPS = [random_group(1, [1.0, 0.0, 0.0]), random_group(2, [0.0, 1.0, 1.0, 0.0]), random_group(3, [0.0, 0.0])]


def no_states(group):
    raise AssertionError("nobody reads hidden states here")


def dpo(margin):
    return -torch.nn.functional.logsigmoid(BETA * margin)


def ipo(margin):
    return (margin - 1 / (2 * BETA)) ** 2


def preferences(loss, ratios, pool):
    return [
        loss(ratios[right.sample_index] - ratios[wrong.sample_index])
        for right in pool.responses for wrong in pool.responses if right.is_positive and not wrong.is_positive
    ]  # fmt: skip


def distilled(ratios, pool):
    pairs = combinations(zip(ratios, [response.reward for response in pool.responses], strict=True), 2)
    return [(BETA * (h - other) - (reward - given)) ** 2 for (h, reward), (other, given) in pairs]


def logprob(model, pool, response):
    ids = torch.tensor([(*pool.prompt.prompt_ids, *response.response_ids)])
    log_softmax = model(input_ids=ids).logits[0].float().log_softmax(-1)
    start = len(pool.prompt.prompt_ids) - 1
    return sum(log_softmax[start + i, token] for i, token in enumerate(response.response_ids))


def loss_of_pairs(policy, losses):
    """Mean over all prompts of the mean over their pairs, written out; autograd does the rest."""
    total = 0.0
    for pool in (group.pool for group in GROUPS):
        ratios = [logprob(policy.model, pool, r) - logprob(policy.reference, pool, r).detach() for r in pool.responses]
        pairs = losses(ratios, pool)
        total = total + sum(pairs) / max(len(pairs), 1)
    return total / len(GROUPS)


@pytest.mark.parametrize(
    ("rule", "losses"),
    [
        (DpoAdvantage, partial(preferences, dpo)),
        (IpoAdvantage, partial(preferences, ipo)),
        (RewardDistillationAdvantage, distilled),
    ],
)
@pytest.mark.parametrize("max_tokens", [10_000, 12])
def test_the_update_is_the_gradient_of_the_loss_of_pairs_however_it_is_split(
    tiny_path, monkeypatch, rule, losses, max_tokens
):
    loss_of_policy = ReinforceLoss(reduction=ConstantReduction(token_scale=1), importance_cap=0.0)
    policy = make_policy(tiny_path, advantage=rule(beta=BETA), loss=loss_of_policy)
    monkeypatch.setattr(policy, "forward_context", nullcontext)  # no trainer is attached
    policy.setup("fit")
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight.mul_(1.05)  # the policy has moved away from the initial one
    loss_of_pairs(policy, losses).backward()
    expected = [weight.grad.clone() for weight in policy.model.parameters()]
    policy.zero_grad()
    (batch,) = pack(GROUPS, max_tokens=max_tokens, advantage=policy.advantage)
    assert len(batch.microbatches) == 1 or max_tokens == 12
    for microbatch in batch:
        policy.microbatch_loss(microbatch, batch)[0].backward()
    assert max(float(gradient.abs().max()) for gradient in expected) > 1e-3
    for weight, gradient in zip(policy.model.parameters(), expected, strict=True):
        torch.testing.assert_close(weight.grad, gradient, atol=2e-5, rtol=1e-3)


def test_by_hand():
    """Log ratios 2, 0, 1 of right, wrong, wrong: margins 2 and 1."""
    group, ratios = make_group([1.0, 0.0, 0.0]), [2.0, 0.0, 1.0]
    for rule, pulls in (
        (DpoAdvantage(beta=0.5), [0.5 / (1 + math.exp(margin / 2)) for margin in (2, 1)]),
        (IpoAdvantage(beta=0.5), [2 * (1 - margin) for margin in (2, 1)]),
    ):
        rule.connect(lambda group: ratios, no_states)
        assert assigned(rule, group) == pytest.approx([sum(pulls) / 2, -pulls[0] / 2, -pulls[1] / 2])
    assert DpoAdvantage(beta=1.0).pull(np.array([1e5, -1e5])).tolist() == [0.0, 1.0]


def test_a_prompt_without_a_pair_asks_nobody_and_a_rule_within_another_is_connected():
    group = make_group([0.2, 0.4])  # both below the threshold
    assert assigned(DpoAdvantage(), group).tolist() == [0.0, 0.0]
    outer = BatchWhitenedAdvantage(advantage=IpoAdvantage())
    assert outer.needs_reference
    with pytest.raises(RuntimeError, match="IpoAdvantage compares with the initial policy, and none is connected"):
        weighed(outer, [make_group([1.0, 0.0])])
    outer.connect(lambda group: [0.0] * len(group.kept), no_states)
    assert len(weighed(outer, [make_group([1.0, 0.0])])) == 1
    with pytest.raises(ValueError, match=r"advantage\.beta must be positive and finite; got 0"):
        DpoAdvantage(beta=0)


def test_distillation_rests_where_log_ratios_are_rewards_over_beta_and_is_a_policy_gradient_before():
    """At the policy that RL with a KL seeks derivatives are 0; at the initial one they are rewards less their mean."""
    rule, group = RewardDistillationAdvantage(beta=0.5), make_group([1.0, 0.25, 0.0])
    rule.connect(lambda group: [2.0 + 7.0, 0.5 + 7.0, 7.0], no_states)  # r / beta, and a constant that cancels
    assert assigned(rule, group) == pytest.approx([0.0] * 3, abs=1e-12)
    rule.connect(lambda group: [0.0] * 3, no_states)
    assert assigned(rule, group) == pytest.approx(4 * 0.5 / 2 * (np.array([1.0, 0.25, 0.0]) - 1.25 / 3))
    assert assigned(rule, make_group([1.0])).tolist() == [0.0]
