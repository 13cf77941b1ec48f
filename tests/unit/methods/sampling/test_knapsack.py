from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ada_lightning.core.records import Belief
from ada_lightning.methods.sampling import KnapsackSampler
from tests.unit.methods.sampling.beliefs import GOLDEN, UNKNOWN, any_beliefs, planned, seen


def knapsack(**settings):
    return KnapsackSampler(**{"responses_per_prompt": 8} | settings)


def value(p, n):
    return (1 - p**n - (1 - p) ** n) * p * (1 - p) ** 2


def official_dp(rates, total, n_min, n_max):
    """The code's dynamic programme in its own words: item by item, budget by budget, 0 for nothing given."""
    room = n_max - n_min
    best = np.full(total + 1, -np.inf)
    best[0] = 0.0
    chosen = []
    for p in rates:
        after, choice = np.full(total + 1, -np.inf), np.zeros(total + 1, dtype=int)
        for budget in range(total + 1):
            for k in range(min(room, budget) + 1):
                worth = best[budget - k] + (value(p, n_min + k) if k else 0.0)
                if worth > after[budget]:
                    after[budget], choice[budget] = worth, k
        best = after
        chosen.append(choice)
    counts, budget = [], total
    for choice in reversed(chosen):
        counts.append(n_min + int(choice[budget]))
        budget -= int(choice[budget])
    return counts[::-1], float(best[total])


def quirk_value(rates, counts, n_min):
    return math.fsum(value(p, n) if n > n_min else 0.0 for p, n in zip(rates, counts, strict=True))


def test_golden_values():
    assert planned(knapsack(), [seen(p) for p in GOLDEN]) == [2, 17, 12, 7, 8, 2]


def test_it_is_the_best_of_all_divisions_of_three_prompts():
    generator = np.random.default_rng(0)
    for _ in range(30):
        rates = generator.uniform(0.05, 0.95, 3).tolist()
        sampler = knapsack(n_max=16, group_size=16, mixed_chance=1 - 1e-9)  # everybody demands all there is
        counts = sampler.divide([seen(p) for p in rates], 24)
        divisions = [c for c in itertools.product(range(2, 17), repeat=3) if sum(c) == 24]
        best = max(sum(map(value, rates, c)) for c in divisions)
        assert sum(map(value, rates, counts)) == pytest.approx(best, rel=1e-12)


def test_the_quirk_is_the_dynamic_programme_of_the_code():
    generator = np.random.default_rng(1)
    num_changed = 0
    for _ in range(40):
        rates = generator.uniform(0.01, 0.99, 5).tolist()
        beliefs = [seen(p) for p in rates]
        exact, quirky = (
            knapsack(
                responses_per_prompt=4, n_max=20, group_size=20, mixed_chance=1 - 1e-9, official_dp_quirk=quirk
            ).divide(beliefs, 20)
            for quirk in (False, True)
        )
        expected, best = official_dp(rates, 20 - 2 * 5, 2, 20)
        assert quirk_value(rates, quirky, 2) == pytest.approx(best, rel=1e-12)
        assert quirky == expected
        num_changed += quirky != exact
    assert num_changed == 21


def test_the_quirk_gives_an_effective_prompt_one_response_that_the_exact_rule_denies_it():
    beliefs = [seen(p) for p in (0.93, 0.3, 0.4)]
    assert planned(knapsack(), beliefs) == [2, 13, 9]
    assert planned(knapsack(official_dp_quirk=True), beliefs) == [3, 12, 9]


def test_unknown_prompts_get_the_mean_and_a_step_of_them_is_uniform():
    assert planned(knapsack(), [UNKNOWN] * 4) == [8] * 4
    few = Belief(1.0, 8.0, 7.0, 0.0)
    assert planned(knapsack(), [few, few]) == [8, 8]
    assert planned(knapsack(), [few, seen(0.01)]) == [8, 8]
    assert planned(knapsack(min_seen=7, n_max=12, group_size=12), [few, seen(0.01)]) == [4, 12]


def test_without_a_minimum_every_prediction_counts():
    predicted = [Belief(8 * p, 8 * (1 - p)) for p in GOLDEN]
    assert planned(knapsack(), predicted) == [8] * 6
    assert planned(knapsack(min_seen=0), predicted) == [2, 17, 12, 7, 8, 2]


def test_surplus_goes_evenly_to_prompts_that_never_passed():
    """At p = 1/2 a group is mixed with 90 % after ln 0.1 / ln 0.5 = 3.3 responses, so 3 are demanded."""
    beliefs = [seen(0.0), seen(0.5), seen(0.0), seen(1.0)]
    # 32 - 8 = 24 left, 3 demanded, 21 surplus: 11 and 10
    assert planned(knapsack(), beliefs) == [13, 5, 12, 2]


def test_unknown_prompts_share_the_surplus_as_in_the_code():
    beliefs = [UNKNOWN, seen(0.5), seen(0.0), seen(1.0)]
    # 32 - 8 - 6 = 18 left, 3 demanded, 15 surplus, evenly on top of 8 and 2
    assert planned(knapsack(), beliefs) == [16, 5, 9, 2]


def test_without_hopeless_prompts_the_surplus_goes_to_solved_ones():
    counts = planned(knapsack(), [seen(1.0), seen(0.5), seen(1.0)])  # 24 - 6 = 18, 3 demanded
    assert counts == [10, 5, 9]


def test_effective_prompts_alone_take_everything():
    assert planned(knapsack(), [seen(0.5)] * 3) == [8, 8, 8]  # the code divides by zero here


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_step_of_one_kind_is_uniform(rate):
    assert planned(knapsack(), [seen(rate)] * 5) == [8] * 5


def test_no_effective_prompt_gives_the_rest_to_those_that_never_passed():
    assert planned(knapsack(), [seen(1.0), seen(0.0), seen(1.0)]) == [2, 20, 2]


def test_what_has_no_room_goes_on_to_whoever_has():
    sampler = knapsack(n_max=10, group_size=10)
    assert planned(sampler, [seen(0.0), seen(0.5), seen(1.0), seen(1.0)]) == [10, 10, 6, 6]


@settings(deadline=None)  # a busy machine is no failure
@given(any_beliefs(), st.integers(2, 12), st.booleans(), st.sampled_from([0, 8]))
def test_the_total_is_exact_and_the_bounds_hold(beliefs, mean, quirk, min_seen):
    sampler = knapsack(responses_per_prompt=mean, n_max=12, group_size=12, official_dp_quirk=quirk, min_seen=min_seen)
    counts = planned(sampler, beliefs)
    assert sum(counts) == mean * len(beliefs)
    assert all(2 <= count <= 12 for count in counts)


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=8, unique=True), st.randoms())
def test_order_does_not_matter_up_to_ties(rates, generator):
    counts = planned(knapsack(), [seen(p) for p in rates])
    order = list(range(len(rates)))
    generator.shuffle(order)
    shuffled = planned(knapsack(), [seen(rates[i]) for i in order])
    assert max(abs(shuffled[place] - counts[i]) for place, i in enumerate(order)) <= 1


def test_a_rate_that_is_no_number_is_refused_with_its_prompt():
    with pytest.raises(ValueError, match=r"the pass rate of prompt 1 is nan: is what its estimator counts\?"):
        planned(knapsack(), [seen(0.5), Belief(1.0, 1.0, 16.0, math.nan)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_min": 9}, r"responses_per_prompt = 8 is less than n_min = 9"),
        ({"negative_n": 9}, r"negative_n must be in \[1, responses_per_prompt = 8\], .* exceed its total; got 9"),
        ({"positive_n": 0}, r"positive_n must be in \[1, .*; got 0"),
        ({"min_seen": -1}, r"min_seen must be 0 \(every prediction counts\) or more; got -1"),
        ({"mixed_chance": 1.0}, r"mixed_chance must be in \(0, 1\); got 1.0"),
        ({"official_dp_quirk": "no"}, r"official_dp_quirk must be true or false; got 'no'"),
        ({"n_max": 4, "mixed_chance": 0.0}, r"exceeds n_max = 4.*; mixed_chance must be .*; group_size must be"),
    ],
)
def test_settings_that_cannot_work_are_rejected_together(change, message):
    with pytest.raises(ValueError, match=message):
        knapsack(**change)
