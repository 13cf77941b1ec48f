"""Pruning must not move the expected gradient: measured over many draws, with real gradients of a small policy."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ada_lightning.core.records import ResponseGroup
from ada_lightning.core.stopping.rule import FixedRule
from ada_lightning.methods.advantages import ExactAdvantage, PoolMeanAdvantage, WeightedLeaveOneOutAdvantage
from ada_lightning.methods.objectives import LogObjective
from ada_lightning.methods.published.cppo import LargestAdvantageSelection
from ada_lightning.methods.published.pruning import PruningSelection
from ada_lightning.methods.selection import AllSelection
from ada_lightning.training.batch import BatchCounts
from ada_lightning.training.losses import ConstantReduction, ResponseMeanReduction
from ada_lightning.training.packing import group_microbatch
from tests.builders import make_pool, weighed

REWARDS = ([1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 1], [0.2, 0.9, 0.4, 0.4, 0.1, 0.0], [1, 0, 1, 0, 0, 1])
NUM_DRAWS = 1200
VOCABULARY, HIDDEN = 12, 5


def pools(step):
    result = []
    for slot, rewards in enumerate(REWARDS):
        pool = make_pool(rewards, slot=slot, num_tokens=[1, 2, 3, 1, 2, 3])
        pool.step = step
        pool.rule = FixedRule(len(rewards))
        result.append(pool)
    return result


def gradient(selection, advantage, reduction, step, weights_HV, hidden_VH):
    """Of the policy loss by the weights of a one-layer policy: real log-probabilities, real reductions."""
    groups = [ResponseGroup(pool, selection.select(pool)) for pool in pools(step)]
    groups = [group for group in groups if group.kept]
    num_responses = sum(len(group.kept) for group in groups)
    counts = BatchCounts(len(REWARDS), num_responses, 1.0)
    microbatch = group_microbatch(*weighed(advantage, groups))
    weights_HV = weights_HV.clone().requires_grad_()
    logits_KV = hidden_VH[microbatch.input_ids_T[microbatch.predictor_K]] @ weights_HV
    logprobs_K = logits_KV.log_softmax(-1).gather(1, microbatch.token_ids_K[:, None])[:, 0]
    advantages_B = microbatch.advantage_B * microbatch.inverse_probability_B
    token_weights_B = reduction.token_weights(microbatch, counts)
    loss = -((advantages_B * token_weights_B)[microbatch.response_K] * logprobs_K).sum()
    (result,) = torch.autograd.grad(loss, weights_HV)
    return result.double().flatten()


def distance(selection_of, advantage, reduction=None):
    """Mean over draws against the whole pools: (distance, its standard error, length of the whole gradient)."""
    reduction = reduction or ConstantReduction(token_scale=1.0)
    generator = torch.Generator().manual_seed(0)
    weights_HV = torch.randn(HIDDEN, VOCABULARY, generator=generator)
    hidden_VH = torch.randn(VOCABULARY, HIDDEN, generator=generator)
    whole = gradient(AllSelection(), advantage, reduction, 0, weights_HV, hidden_VH)
    draws = torch.stack(
        [gradient(selection_of(), advantage, reduction, step, weights_HV, hidden_VH) for step in range(NUM_DRAWS)]
    )
    error = (draws.var(0).sum() / NUM_DRAWS).sqrt()
    return float((draws.mean(0) - whole).norm()), float(error), float(whole.norm())


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "advantage",
    [PoolMeanAdvantage(normalize_std=True), ExactAdvantage(objective=LogObjective()), WeightedLeaveOneOutAdvantage()],
    ids=["pool mean", "exact", "weighted leave one out"],
)
def test_the_mean_gradient_is_that_of_the_whole_pools(advantage):
    """Squared distance has the expectation error^2 if unbiased; four errors come by chance at most 6 times in 10^5."""
    off, error, length = distance(lambda: PruningSelection(rate=0.6), advantage)
    assert off < 4 * error
    assert error < 0.06 * length  # it could have seen a bias of a quarter


@pytest.mark.long
@pytest.mark.parametrize(
    ("selection", "reduction"),
    [
        (LargestAdvantageSelection(rate=0.5), None),
        (PruningSelection(rate=0.6), ResponseMeanReduction()),
    ],
    ids=["a fixed fraction", "dividing by what is kept"],
)
def test_what_is_said_to_be_biased_is(selection, reduction):
    off, error, length = distance(lambda: selection, PoolMeanAdvantage(normalize_std=True), reduction)
    assert off > 6 * error + 0.05 * length


def test_only_what_is_below_the_mean_is_pruned_and_what_stays_of_it_weighs_more():
    pool = make_pool([1] + [0] * 9)
    kept = PruningSelection(rate=0.5, seed=1).select(pool)
    weight = {k.response.sample_index: k.inverse_probability for k in kept}
    assert weight.pop(0) == 1.0
    assert set(weight.values()) == {2.0}
    assert 0 < len(weight) < 9
    assert {k.selection_weight for k in kept} == {1.0}  # the classes are those of the whole pool


@pytest.mark.parametrize("rewards", [[1, 0, 1, 0], [1] * 5, [0.3] * 5, [0.1, 0.3], []])
def test_equally_large_advantages_are_not_pruned(rewards):
    assert len(PruningSelection(rate=0.99).select(make_pool(rewards))) == len(rewards)


def test_masked_responses_never_train_and_their_class_weighs_more_instead():
    pool = make_pool([0, 1, 0, 0, 0, 0])
    pool.responses[0] = replace(pool.responses[0], is_masked=True)
    kept = PruningSelection(rate=0.0).select(pool)
    assert [(k.response.sample_index, k.selection_weight) for k in kept] == [
        (1, 1.0),
        *((i, 1.25) for i in range(2, 6)),
    ]
    assert [k.response.sample_index for k in PruningSelection(rate=1 - 1e-12).select(pool)] == [1]
