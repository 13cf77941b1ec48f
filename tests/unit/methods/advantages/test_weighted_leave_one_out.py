"""The general estimator against hand-worked numbers and against every pool a toy policy can produce."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.advantages import ExactAdvantage, WeightedLeaveOneOutAdvantage
from ada_lightning.methods.objectives import LinearObjective
from ada_lightning.methods.pass_rates import FirstRoundRate
from ada_lightning.methods.sampling import SpreadSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection, QuantileSelection, StratifiedSelection
from tests.builders import assigned, make_pool

FIRST_ROUND = WeightedLeaveOneOutAdvantage(baseline=FirstRoundRate())


def advantages(pool, selection, advantage=None):
    return assigned((advantage or WeightedLeaveOneOutAdvantage()), ResponseGroup(pool, selection.select(pool)))


def test_weighted_leave_one_out_by_hand():
    """Sum 2 over 5; the others' means are .25, .5, .5, .25+.125, .375; three low rewards share two places."""
    pool = make_pool([1.0, 0.0, 0.0, 0.5, 0.5])
    kept = StratifiedSelection(group_size=4, thresholds=[0.2, 0.7])
    # order: 1 of 1; 1 of 2 and then the two of the largest strata
    assert [(k.response.sample_index, k.selection_weight) for k in kept.select(pool)] == [
        (0, 1.0), (3, 1.0), (4, 1.0), (1, 2.0),
    ]  # fmt: skip
    expected = torch.tensor([1 - 0.25, 0.5 - 0.375, 0.5 - 0.375, 2 * (0 - 0.5)]) / 5
    assert advantages(pool, kept) == pytest.approx(expected)


def test_the_first_round_is_another_baseline():
    """First round 1, 0: mean 1/2 for all five."""
    pool = make_pool([1.0, 0.0, 0.0, 0.5, 0.25], block=2)
    expected = torch.tensor([0.5, -0.5, -0.5, 0.0, -0.25]) / 5
    assert advantages(pool, AllSelection(), FIRST_ROUND) == pytest.approx(expected)


def test_only_differences_of_rewards_count():
    assert advantages(make_pool([0.7]), AllSelection()).tolist() == [0.0]
    assert advantages(make_pool([-1.0, 0.0, -0.5]), AllSelection()) == pytest.approx(
        advantages(make_pool([0.0, 1.0, 0.5]), AllSelection())
    )


@pytest.mark.parametrize("num_positive", range(9))
@pytest.mark.parametrize("selection", [AllSelection(), BalancedSelection(group_size=4)])
def test_binary_rewards_and_uniform_sampling_give_the_exact_linear_estimator(num_positive, selection):
    """c = P Q / (N (N - 1)), as +c / m+ and -c / m-."""
    pool = make_pool([1.0] * num_positive + [0.0] * (8 - num_positive))
    pool.rule = UniformSampler(group_size=8).end(pool).rule
    ours = advantages(pool, selection)
    assert ours == pytest.approx(advantages(pool, selection, ExactAdvantage(objective=LinearObjective())))
    c = num_positive * (8 - num_positive) / 56
    assert float(ours[ours > 0].sum()) == pytest.approx(c, abs=1e-7)


# A policy over four responses, two of them with the same reward and two in the same stratum.
PROBABILITIES = [0.5, 0.2, 0.2, 0.1]
REWARDS = [0.0, 0.25, 0.25, 1.0]
STRATIFIED = StratifiedSelection(group_size=2, thresholds=[0.5])


def expected_update(sampler, selection, advantage):
    """Exact expectation, over all pools, of the sum over kept responses of A times the score in logits."""
    update = [0.0] * len(REWARDS)
    total = 0.0
    unfinished = [((), 1.0)]
    while unfinished:
        actions, probability = unfinished.pop()
        pool = make_pool([REWARDS[action] for action in actions], block=sampler.samples_per_round)
        if num_to_draw := sampler.num_to_draw(pool):
            unfinished += [
                (actions + block, probability * math.prod(PROBABILITIES[a] for a in block))
                for block in itertools.product(range(len(REWARDS)), repeat=num_to_draw)
            ]
            continue
        total += probability
        kept = selection.select(pool)
        for k, a in zip(kept, assigned(advantage, ResponseGroup(pool, kept)).tolist(), strict=True):
            for j, p in enumerate(PROBABILITIES):
                update[j] += probability * a * ((j == actions[k.response.sample_index]) - p)
    assert total == pytest.approx(1.0)
    return update


def mean_reward_gradient():
    logits = torch.tensor(PROBABILITIES, dtype=torch.float64).log().requires_grad_()
    (logits.softmax(0) @ torch.tensor(REWARDS, dtype=torch.float64)).backward()
    return logits.grad.tolist()


def along_the_gradient(update):
    """Length of the update in units of the gradient, along it."""
    gradient = mean_reward_gradient()
    return sum(u * g for u, g in zip(update, gradient, strict=True)) / sum(g * g for g in gradient)


@pytest.mark.parametrize(
    "selection",
    [
        AllSelection(),
        STRATIFIED,
        StratifiedSelection(group_size=3, thresholds=[0.1, 0.5], random_order=True, seed=1),
        QuantileSelection(group_size=2, num_strata=2),
        BalancedSelection(group_size=2),
    ],
    ids=["all", "stratified", "three strata, random order", "quantile", "balanced"],
)
def test_uniform_sampling_follows_the_gradient_of_the_mean_reward(selection):
    update = expected_update(UniformSampler(group_size=4), selection, WeightedLeaveOneOutAdvantage())
    assert update == pytest.approx(mean_reward_gradient(), abs=1e-12)


def test_the_first_round_as_baseline_shrinks_a_uniform_update_by_its_own_share():
    """Each response is a fourth of its own baseline."""
    update = expected_update(UniformSampler(group_size=4), STRATIFIED, FIRST_ROUND)
    assert update == pytest.approx([0.75 * g for g in mean_reward_gradient()], abs=1e-12)


def test_stopping_by_the_spread_leaves_a_bias():
    sampler = SpreadSampler(min_spread=0.5, samples_per_round=1, n_max=4, group_size=2)
    mixed_stratum = StratifiedSelection(group_size=2, thresholds=[0.1])  # 0.25, which ends no sampling, beside 1
    whole, stratified, mixed = (
        along_the_gradient(expected_update(sampler, selection, WeightedLeaveOneOutAdvantage()))
        for selection in (AllSelection(), STRATIFIED, mixed_stratum)
    )
    assert whole > 1.1
    assert stratified == pytest.approx(whole, abs=1e-12)  # strata that stopping sees no deeper into are exchangeable
    assert abs(mixed - whole) > 0.01  # the first generated of this one are not like the one that ended sampling
    assert abs(along_the_gradient(expected_update(sampler, AllSelection(), FIRST_ROUND)) - 1) > 0.01


@pytest.mark.parametrize(
    ("pass_rate", "leave_one_out", "first_round"), [(0.05, 2.02, 1.73), (0.2, 1.33, 1.04), (0.5, 1.10, 0.82)]
)
def test_the_bias_for_binary_rewards_is_what_the_docstring_says(pass_rate, leave_one_out, first_round):
    """Blocks of 4, at most 32, until both rewards occur: a sum over the numbers of positives of each block."""
    sampler = SpreadSampler(min_spread=1.0, samples_per_round=4, n_max=32, group_size=4)
    sums = {"leave one out": 0.0, "first round": 0.0}
    unfinished = [((), 1.0)]
    while unfinished:
        rewards, probability = unfinished.pop()
        pool = make_pool(rewards, block=4)
        if sampler.num_to_draw(pool):
            for k in range(5):  # any order within a block does: stopping falls between blocks
                weight = math.comb(4, k) * pass_rate**k * (1 - pass_rate) ** (4 - k)
                unfinished.append((rewards + (1.0,) * k + (0.0,) * (4 - k), probability * weight))
            continue
        for name, advantage in (("leave one out", WeightedLeaveOneOutAdvantage()), ("first round", FIRST_ROUND)):
            for reward, a in zip(rewards, advantages(pool, AllSelection(), advantage).tolist(), strict=True):
                sums[name] += probability * (a / pass_rate if reward else -a / (1 - pass_rate))
    assert sums["leave one out"] == pytest.approx(leave_one_out, abs=0.005)
    assert sums["first round"] == pytest.approx(first_round, abs=0.005)
