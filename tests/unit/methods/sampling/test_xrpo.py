from __future__ import annotations

import itertools
import math

import pytest
from scipy.stats import t

from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.sampling import XrpoSampler
from ada_lightning.methods.sampling.forecast import forecast
from ada_lightning.methods.sampling.xrpo import xrpo_priority
from ada_lightning.methods.selection import AllSelection
from tests.builders import make_pool, make_prompt

SETTINGS = {"num_pilot": 4, "responses_per_prompt": 8, "num_rounds": 2, "exploration": 0.1, "n_max": 32}


def sampler_of(**change):
    return XrpoSampler(**{**SETTINGS, "group_size": 32, **change})


def pilots(*positives, size=4):
    return [
        make_pool([1.0] * right + [0.0] * (size - right), slot=slot, key=slot) for slot, right in enumerate(positives)
    ]


def planned(sampler, pools):
    return [pool.num_drawn + sampler.num_to_draw(pool) for pool in pools]


@pytest.mark.parametrize("num_sampled", [2, 3, 8, 31])
@pytest.mark.parametrize("significance", [0.05, 0.3])
def test_the_priority_is_the_gain_in_half_width_and_the_bonus(num_sampled, significance):
    def half_width(n):
        return t.ppf(1 - significance / 2, n - 1) * 0.4 / math.sqrt(n)

    expected = half_width(num_sampled) - half_width(num_sampled + 1) + 0.2 * math.log(1 + 100) / num_sampled
    got = xrpo_priority(num_sampled, 0.4, 100, significance=significance, exploration=0.2)
    assert got == pytest.approx(expected, rel=1e-12)


def test_priorities_fall_with_every_response():
    for spread, exploration in ((0.5, 0.0), (0.0, 0.1), (0.3, 0.2)):
        options = {"significance": 0.05, "exploration": exploration}
        priorities = [xrpo_priority(n, spread, 50, **options) for n in range(2, 200)]
        assert all(first > second for first, second in itertools.pairwise(priorities))


def test_one_response_has_no_spread():
    assert xrpo_priority(1, 0.0, 10, significance=0.05, exploration=0.1) == pytest.approx(0.1 * math.log(11))
    assert xrpo_priority(0, 0.0, 10, significance=0.05, exploration=0.1) == pytest.approx(0.1 * math.log(11))


def test_a_round_is_the_best_division_by_brute_force():
    """One round of six responses among three prompts: no division has a larger sum of priorities."""
    pools = pilots(0, 1, 2)
    sampler = sampler_of(num_rounds=1, responses_per_prompt=6)
    sampler.plan(pools)
    sampler.plan(pools, 1)
    counts = planned(sampler, pools)
    assert sum(counts) == 18

    def worth(given):
        return sum(
            xrpo_priority(4 + k, [0.0, 0.5, math.sqrt(1 / 3)][i], 12, significance=0.05, exploration=0.1)
            for i, number in enumerate(given)
            for k in range(number)
        )

    best = max((given for given in itertools.product(range(7), repeat=3) if sum(given) == 6), key=worth)
    assert [count - 4 for count in counts] == list(best)


def test_rounds_share_what_the_pilots_leave_and_look_again():
    pools = pilots(2, 0)
    sampler = sampler_of(exploration=0.0)
    sampler.plan(pools)
    assert [sampler.num_to_draw(ResponsePool(pool.prompt, pool.slot)) for pool in pools] == [4, 4]
    sampler.plan(pools, 1)
    assert planned(sampler, pools) == [8, 4]  # only the first has a spread
    changed = [make_pool([1.0, 1.0, 0.0, 0.0] + [1.0] * 4), make_pool([0.0] * 4, slot=1, key=1)]
    sampler.plan(changed, 2)
    assert planned(sampler, changed) == [12, 4]


def test_no_prompt_gets_more_than_the_cap_and_the_total_is_met():
    pools = pilots(2, 0, 0)
    sampler = sampler_of(exploration=0.0, num_rounds=1, n_max=10, group_size=10)
    sampler.plan(pools)
    sampler.plan(pools, 1)
    assert planned(sampler, pools) == [10, 10, 4]  # ties go to the first
    crowded = sampler_of(n_max=8, group_size=8, num_rounds=1)
    crowded.plan(pools)
    crowded.plan(pools, 1)
    assert planned(crowded, pools) == [8, 8, 8]


def test_rounds_without_a_response_are_passed_over():
    pools = pilots(2)
    sampler = sampler_of(responses_per_prompt=5, num_rounds=4)
    sampler.plan(pools)
    for stage in range(1, 5):
        sampler.plan(pools, stage)
    assert planned(sampler, pools) == [5]
    sampler.plan(pools)
    assert planned(sampler, pools) == [4]


def test_a_grader_that_always_fails_does_not_eat_the_step():
    failed = ResponsePool(make_prompt(9), 1, num_drawn=4, num_failed=4)
    pools = [*pilots(2), failed]
    sampler = sampler_of(exploration=0.0, num_rounds=1)
    sampler.plan(pools)
    sampler.plan(pools, 1)
    assert planned(sampler, pools) == [12, 4]


def test_a_step_costs_what_it_is_to():
    assert forecast([(0, 8), (4, 8), (8, 8)], sampler_of(), AllSelection()).num_sampled == 8.0
