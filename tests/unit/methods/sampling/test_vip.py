from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ada_lightning.core.records import Belief
from ada_lightning.core.stopping import FixedRule
from ada_lightning.methods.advantages import GroupNormalizedAdvantage, LeaveOneOutAdvantage
from ada_lightning.methods.sampling import DrGrpoVariance, RlooVariance, VipSampler
from tests.builders import assigned, make_group, make_pool
from tests.unit.methods.sampling.beliefs import GOLDEN, UNKNOWN, any_beliefs, planned, seen

RLOO, DR_GRPO = RlooVariance(), DrGrpoVariance()
VARIANCES = [RLOO, DR_GRPO]


def vip(variance=RLOO, **settings):
    return VipSampler(**{"responses_per_prompt": 8, "variance": variance, "n_min": 3} | settings)


def objective(variance, rates, counts):
    return math.fsum(p * (1 - p) * variance(n) for p, n in zip(rates, counts, strict=True))


def slope(variance, n):
    """Minus the derivative by n, written out once more: (n-2)/n^3 and 1/(n-1)^2."""
    return 1 / (n - 1) ** 2 if variance is RLOO else (n - 2) / n**3


def kkt(variance, rates, total, lower, upper):
    """Theorems 5.1 and 5.2: the real-valued solution by bisection on the multiplier."""
    spreads = [p * (1 - p) for p in rates]

    def response_to(multiplier):
        counts = []
        for spread in spreads:
            low, high = float(lower), float(upper)
            for _ in range(100):  # the slope falls with n
                middle = (low + high) / 2
                low, high = (middle, high) if spread * slope(variance, middle) > multiplier else (low, middle)
            counts.append(low)
        return counts

    low, high = 1e-12, max(spreads)
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if sum(response_to(middle)) > total else (low, middle)
    return response_to(high)


def floor_and_greedy(variance, rates, total, lower, upper):
    """Algorithm 2: round the real-valued solution down, then add where the variance falls most."""
    counts = [max(lower, math.floor(n + 1e-9)) for n in kkt(variance, rates, total, lower, upper)]
    while sum(counts) < total:
        falls = [
            p * (1 - p) * (variance(n) - variance(n + 1)) if n < upper else -1.0
            for p, n in zip(rates, counts, strict=True)
        ]
        counts[int(np.argmax(falls))] += 1
    return counts


def test_it_is_a_sampler_whose_pools_have_sizes_fixed_beforehand():
    sampler = vip()
    assert planned(sampler, [UNKNOWN] * 3) == [8, 8, 8]
    assert sampler.end(make_pool([], slot=1)).rule == FixedRule(8)


@pytest.mark.parametrize(("variance", "expected"), [(DR_GRPO, [3, 7, 11, 12, 11, 4]), (RLOO, [4, 7, 10, 11, 10, 6])])
def test_golden_values(variance, expected):
    assert planned(vip(variance), [seen(p) for p in GOLDEN]) == expected


@pytest.mark.parametrize("variance", VARIANCES)
def test_it_is_the_best_of_all_divisions_of_three_prompts(variance):
    generator = np.random.default_rng(0)
    for _ in range(30):
        rates = generator.uniform(0.01, 0.99, 3).tolist()
        total = 3 * int(generator.integers(3, 8))
        counts = vip(variance, n_max=10, group_size=10).divide([seen(p) for p in rates], total)
        divisions = [c for c in itertools.product(range(3, 11), repeat=3) if sum(c) == total]
        best = min(objective(variance, rates, c) for c in divisions)
        assert objective(variance, rates, counts) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_multiplier_of_the_paper_bounds_it_and_its_rounding_gives_the_same(variance):
    generator = np.random.default_rng(1)
    for _ in range(25):
        rates = generator.uniform(0.02, 0.98, 7).tolist()
        total = 7 * int(generator.integers(4, 14))
        counts = vip(variance, n_max=16, group_size=16).divide([seen(p) for p in rates], total)
        relaxed = kkt(variance, rates, total, 3, 16)
        assert sum(relaxed) == pytest.approx(total, abs=1e-6)
        assert objective(variance, rates, relaxed) <= objective(variance, rates, counts) + 1e-9
        assert counts == floor_and_greedy(variance, rates, total, 3, 16)
        assert max(abs(n - m) for n, m in zip(counts, relaxed, strict=True)) < 1 + 1e-6


@pytest.mark.parametrize(
    ("variance", "advantage"),
    [(RLOO, LeaveOneOutAdvantage()), (DR_GRPO, GroupNormalizedAdvantage(normalize_std=False))],
)
@pytest.mark.parametrize(("size", "rate"), [(3, 0.2), (8, 0.5)])
def test_variance_is_that_of_the_advantage_by_simulation(variance, advantage, size, rate):
    """The mean over n responses of advantage times an independent score of variance 1, rewards of 0 and 1."""
    generator = np.random.default_rng(2)
    num_groups = 200_000
    rewards = (generator.random((num_groups, size)) < rate).astype(float)
    # The package's own advantages of a group with so many positives: they depend on the counts alone.
    by_count = np.zeros((size + 1, 2))
    for num_positive in range(1, size):
        group = make_group([1.0] * num_positive + [0.0] * (size - num_positive))
        advantages = assigned(advantage, group).tolist()
        by_count[num_positive] = advantages[-1], advantages[0]
    advantages = by_count[rewards.sum(1).astype(int)[:, None], rewards.astype(int)]
    estimates = (advantages * generator.standard_normal((num_groups, size))).mean(1)
    spread = (estimates**2).std() / math.sqrt(num_groups)  # the estimate's mean is 0
    assert (estimates**2).mean() == pytest.approx(rate * (1 - rate) * variance(size), abs=5 * spread)


@pytest.mark.parametrize("variance", VARIANCES)
def test_gains_are_differences_of_the_variance(variance):
    for n in range(variance.fewest, 40):
        assert variance.gain(n) == pytest.approx(variance(n) - variance(n + 1), rel=1e-12)


@settings(deadline=None)  # a busy machine is no failure
@given(any_beliefs(), st.integers(3, 12), st.sampled_from(VARIANCES), st.sampled_from([0, 3]))
def test_the_total_is_exact_and_the_bounds_hold(beliefs, mean, variance, min_keep):
    sampler = vip(variance, responses_per_prompt=mean, n_max=12, group_size=12, min_keep=min_keep)
    counts = planned(sampler, beliefs)
    assert sum(counts) == mean * len(beliefs)
    assert all(3 <= count <= 12 for count in counts)


@settings(deadline=None)
@given(st.lists(st.floats(0.001, 0.5), min_size=1, max_size=8, unique=True), st.randoms(), st.integers(3, 31))
def test_order_does_not_matter_and_nobody_loses_by_a_larger_total(rates, generator, mean):
    sampler = vip()
    counts = sampler.divide([seen(p) for p in rates], mean * len(rates))
    order = list(range(len(rates)))
    generator.shuffle(order)
    shuffled = sampler.divide([seen(rates[i]) for i in order], mean * len(rates))
    if len({p * (1 - p) for p in rates}) == len(rates):  # floats of different rates may have one product
        # Gains of different prompts can be equal: then the earlier one gets it, and it is one response at most.
        assert max(abs(shuffled[place] - counts[i]) for place, i in enumerate(order)) <= 1
    more = sampler.divide([seen(p) for p in rates], mean * len(rates) + 1)
    assert all(before <= after for before, after in zip(counts, more, strict=True))


def test_predictions_of_0_and_1_get_the_lower_bound_and_a_step_of_them_is_divided_evenly():
    certain = [Belief(1e-12, 8.0), Belief(8.0, 1e-12)]
    assert planned(vip(), [certain[0], certain[1], seen(0.5), seen(0.5)]) == [3, 3, 13, 13]
    assert planned(vip(), certain[:1] * 5) == [8] * 5


def test_prediction_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match=r"the gain of prompt 1 at 3 responses is nan; .* predicted pass rate\?"):
        planned(vip(), [UNKNOWN, Belief(math.nan, 1.0)])


def test_hard_bias_moves_responses_to_the_harder_of_two_equally_uncertain_prompts():
    rates = (0.25, 0.75)
    beliefs = [seen(p) for p in rates]
    assert vip().divide(beliefs, 32) == [16, 16]
    for gamma in (7e-4, 4e-3):

        def cost(count, gamma=gamma):
            counts = (count, 32 - count)
            linear = sum(n * math.log(p) for p, n in zip(rates, counts, strict=True))
            return objective(RLOO, rates, counts) + gamma * linear

        best = min(range(3, 30), key=cost)
        assert best > 16
        assert vip(hard_bias_gamma=gamma).divide(beliefs, 32) == [best, 32 - best]


class TestMinKeep:
    def test_small_plans_go_to_the_largest(self):
        beliefs = [seen(p) for p in GOLDEN]
        assert planned(vip(), beliefs) == [4, 7, 10, 11, 10, 6]
        assert planned(vip(min_keep=5), beliefs) == [0, 7, 10, 15, 10, 6]
        assert planned(vip(min_keep=7), beliefs) == [0, 7, 10, 21, 10, 0]

    def test_freed_responses_fill_one_prompt_after_the_other(self):
        beliefs = [seen(p) for p in GOLDEN]
        sampler = vip(min_keep=7, n_max=14, group_size=14)
        assert planned(sampler, beliefs) == [0, 7, 14, 14, 13, 0]

    def test_what_has_no_room_comes_back_to_the_largest_of_the_small(self):
        sampler = vip(responses_per_prompt=8, n_max=9, group_size=9, min_keep=8)
        counts = planned(sampler, [seen(0.001)] * 2 + [seen(0.5)] * 4)
        assert sum(counts) == 48
        assert counts == [9, 3, 9, 9, 9, 9]  # 6 and 6 of the first two, of which 4 have room elsewhere


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"variance": DR_GRPO, "n_min": 2},
            r"n_min = 2 is less than 3: .*DrGrpoVariance .*starves.*use n_min=3 or more",
        ),
        ({"n_min": 1}, r"n_min = 1 is less than 2: .*RlooVariance"),
        ({"responses_per_prompt": 2}, r"responses_per_prompt = 2 is less than n_min = 3: .* lower n_min"),
        ({"responses_per_prompt": 33}, r"responses_per_prompt = 33 exceeds n_max = 32: .* raise n_max"),
        ({"hard_bias_gamma": -1.0}, r"hard_bias_gamma must be 0 \(off\) or positive, and finite; got -1.0"),
        ({"min_keep": 9}, r"min_keep must be 0 \(off\) or at most responses_per_prompt = 8, .* got 9"),
        ({"hard_bias_gamma": math.nan, "n_min": 40}, r"n_max = 32 is less than n_min = 40; .*hard_bias_gamma"),
    ],
)
def test_settings_that_cannot_work_are_rejected_together(change, message):
    with pytest.raises(ValueError, match=message):
        vip(**change)


def test_no_state_outlives_a_step():
    assert vip().state_dict() == {}
    assert len(planned(vip(), [])) == 0
