from __future__ import annotations

import pytest

from ada_lightning.core.records import Grade, SamplingSettings
from ada_lightning.methods.sampling import BalanceSampler, SpreadSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.engines.scripted import ScriptedEngine
from tests.builders import Collector, InstantGrader, decode, make_pool, make_prompt

SPREAD = {"min_spread": 0.5, "samples_per_round": 4, "n_max": 32, "group_size": 4}


@pytest.mark.parametrize(
    ("rewards", "wanted"),
    [
        ([], 4),
        ([0.1, 0.2, 0.3, 0.5], 4),  # 0.4 apart
        ([0.1, 0.2, 0.3, 0.6], 0),  # 0.5 apart
        ([0.9, 0.2, 0.3, 0.4], 0),
        ([0.0, 1.0], 2),  # far enough apart, but inside a block
        ([0.0, 1.0, 0.0, 0.0, 0.0], 3),
        ([-3.0, -2.9, -2.8, -2.4], 0),  # negative rewards are rewards
        ([0.2] * 32, 0),  # nothing more may be drawn
        ([0.2] * 30, 2),
    ],
)
def test_spread_draws_blocks_until_rewards_are_far_enough_apart(rewards, wanted):
    assert SpreadSampler(**SPREAD).num_to_draw(make_pool(rewards)) == wanted


def test_rounding_of_floats_does_not_cost_a_block():
    assert 0.7 - 0.4 < 0.3
    sampler = SpreadSampler(**{**SPREAD, "min_spread": 0.3})
    assert sampler.num_to_draw(make_pool([0.4, 0.7, 0.5, 0.5])) == 0


def test_excluded_draws_are_no_evidence_and_drawn_anew_up_to_a_limit():
    pool = make_pool([0.0, 1.0])
    pool.num_failed, pool.num_drawn = 2, 4
    assert SpreadSampler(**SPREAD).num_to_draw(pool) == 2  # completes the block
    pool.num_failed, pool.num_drawn = 61, 63
    assert SpreadSampler(**SPREAD).num_to_draw(pool) == 1
    pool.num_failed, pool.num_drawn = 62, 64
    assert SpreadSampler(**SPREAD).num_to_draw(pool) == 0


def test_binary_rewards_draw_what_balance_draws_for_one_of_each():
    spread = SpreadSampler(**{**SPREAD, "min_spread": 1.0})
    balance = BalanceSampler(k_pos=1, k_neg=1, samples_per_round=4, n_max=32, group_size=4)
    for num_positive in range(33):
        for num_negative in range(33 - num_positive):
            pool = make_pool([1.0] * num_positive + [0.0] * num_negative)
            assert spread.num_to_draw(pool) == balance.num_to_draw(pool)


def test_collection_asks_the_sampler_whether_a_pool_is_resolved():
    """Rewards of 0.25 and 0.6 only: the mixed prompt resolves, the one without a single 0.6 does not."""
    sampler = SpreadSampler(**{**SPREAD, "min_spread": 0.3})
    groups, _ = Collector(decode=decode, seed=0).collect(
        [make_prompt(1), make_prompt(2)],
        engine=ScriptedEngine(pass_rates={1: 0.5, 2: 0.0}),
        grader=InstantGrader(lambda text: Grade(0.6 if text == "1" else 0.25)),
        sampler=sampler,
        selection=AllSelection(),
        settings=SamplingSettings(max_new_tokens=4),
        stage="train",
        step=0,
        policy_version=0,
    )
    mixed, hopeless = (group.pool for group in groups)
    assert (mixed.rule, mixed.is_resolved, mixed.num_drawn % 4) == (None, True, 0)
    assert (hopeless.rule, hopeless.is_resolved, hopeless.num_drawn) == (None, False, 32)


def test_all_errors_come_in_one_message():
    with pytest.raises(ValueError, match=r"min_spread must be a positive number.*; got 0; .*samples_per_round = 5"):
        SpreadSampler(**{**SPREAD, "min_spread": 0, "samples_per_round": 5})


@pytest.mark.parametrize("min_spread", [-1.0, float("nan"), float("inf")])
def test_a_spread_that_is_no_positive_number_is_rejected(min_spread):
    with pytest.raises(ValueError, match="min_spread must be a positive number"):
        SpreadSampler(**{**SPREAD, "min_spread": min_spread})
