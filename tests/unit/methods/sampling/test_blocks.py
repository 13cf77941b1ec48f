"""Samplers that draw a fixed group, or block after block until a pool holds what they look for."""

from __future__ import annotations

import pytest

from ada_lightning.core.records import Verdict
from ada_lightning.methods.sampling import BalanceSampler, PositiveSampler, SpreadSampler, UniformSampler
from tests.builders import InstantGrader, make_pool
from tests.unit.methods.sampling.planning import collected

SIZES = {"samples_per_round": 4, "n_max": 32, "group_size": 4}
BALANCE = BalanceSampler(k_pos=2, k_neg=2, **SIZES)
POSITIVE = PositiveSampler(k_pos=1, **SIZES)
SPREAD = SpreadSampler(min_spread=0.5, **SIZES)


def counts(num_positive, num_negative):
    return [1.0] * num_positive + [0.0] * num_negative


@pytest.mark.parametrize(
    ("sampler", "rewards", "wanted"),
    [
        (UniformSampler(group_size=4), [], 4),
        (UniformSampler(group_size=4), [0.0] * 4, 0),
        (BALANCE, [], 4),
        (BALANCE, counts(2, 2), 0),
        (BALANCE, counts(1, 3), 4),  # a positive is missing
        (BALANCE, counts(3, 1), 4),  # a negative is missing
        (BALANCE, counts(1, 31), 0),  # budget spent
        (BALANCE, counts(0, 30), 2),  # the last block is what is left of the budget
        (POSITIVE, counts(0, 4), 4),
        (POSITIVE, counts(1, 3), 0),
        (POSITIVE, counts(4, 0), 0),
        (POSITIVE, counts(0, 32), 0),
        (SPREAD, [], 4),
        (SPREAD, [0.1, 0.2, 0.3, 0.5], 4),  # 0.4 apart
        (SPREAD, [0.1, 0.2, 0.3, 0.6], 0),  # 0.5 apart
        (SPREAD, [0.0, 1.0], 2),  # far enough apart, but inside a block
        (SPREAD, [0.0, 1.0, 0.0, 0.0, 0.0], 3),
        (SPREAD, [-3.0, -2.9, -2.8, -2.4], 0),  # negative rewards are rewards
        (SPREAD, [0.2] * 32, 0),
        (SPREAD, [0.2] * 30, 2),
        (SpreadSampler(min_spread=0.3, **SIZES), [0.4, 0.7, 0.5, 0.5], 0),  # 0.7 - 0.4 < 0.3, by rounding alone
    ],
)
def test_blocks_are_drawn_until_the_pool_holds_what_is_looked_for_or_the_budget_is_spent(sampler, rewards, wanted):
    assert sampler.num_to_draw(make_pool(rewards)) == wanted


@pytest.mark.parametrize("sampler", [BALANCE, SPREAD])
@pytest.mark.parametrize(("num_failed", "wanted"), [(2, 2), (61, 1), (62, 0)])
def test_excluded_draws_are_no_evidence_and_drawn_anew_up_to_twice_the_cap(sampler, num_failed, wanted):
    pool = make_pool([0.0, 1.0])
    pool.num_failed, pool.num_drawn = num_failed, 2 + num_failed
    assert sampler.num_to_draw(pool) == wanted


def test_binary_rewards_draw_by_their_spread_what_balance_draws_for_one_of_each():
    spread, balance = SpreadSampler(min_spread=1.0, **SIZES), BalanceSampler(k_pos=1, k_neg=1, **SIZES)
    for num_positive in range(33):
        for num_negative in range(33 - num_positive):
            pool = make_pool(counts(num_positive, num_negative))
            assert spread.num_to_draw(pool) == balance.num_to_draw(pool)


def test_a_rollout_asks_the_sampler_whether_a_pool_is_resolved():
    """Rewards of 0.25 and 0.6 only: the mixed prompt resolves, the one without a single 0.6 does not."""
    sampler, grader = (
        SpreadSampler(min_spread=0.3, **SIZES),
        InstantGrader(lambda t: Verdict(0.6 if t == "1" else 0.25)),
    )
    groups, _ = collected(sampler, {1: 0.5, 2: 0.0}, grader=grader)
    mixed, hopeless = (group.pool for group in groups)
    assert (mixed.rule, mixed.is_resolved, mixed.num_drawn % 4) == (None, True, 0)
    assert (hopeless.rule, hopeless.is_resolved, hopeless.num_drawn) == (None, False, 32)
