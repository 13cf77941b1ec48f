"""What every sampler does that divides a step by beliefs: the best division, its bounds, a single pass."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta as beta_distribution

from ada_lightning.analysis.metrics.rollout import EstimatorCalibration, RolloutMetrics
from ada_lightning.core.records import Belief, Verdict
from ada_lightning.core.step_records import RolloutResult
from ada_lightning.core.stopping import CappedRule, FixedRule
from ada_lightning.methods.published.coba import CobaSampler
from ada_lightning.methods.published.knapsack import KnapsackSampler
from ada_lightning.methods.published.reinforce_ada import EstimatedSampler
from ada_lightning.methods.published.vip import DrGrpoVariance, RlooVariance, VipSampler
from ada_lightning.methods.sampling.forecast import forecast
from ada_lightning.methods.sampling.planned import OneShotSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.training.packing import pack_groups
from tests.builders import InstantGrader, make_pool
from tests.unit.methods.sampling.planning import GOLDEN, UNKNOWN, any_beliefs, collected, planned, seen

VIP = partial(VipSampler, variance=RlooVariance(), n_min=3)
VIP_DR_GRPO = partial(VIP, variance=DrGrpoVariance())
SAMPLERS = {
    "estimated": EstimatedSampler,
    "vip": VIP,
    "vip, dr_grpo": VIP_DR_GRPO,
    "knapsack": KnapsackSampler,
    "knapsack, predicted": partial(KnapsackSampler, min_seen=0),
    "coba": CobaSampler,
}
every_sampler = pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)


def coba(failures=0.5, **options):
    """One that has seen this share of failures."""
    sampler = CobaSampler(**{"responses_per_prompt": 8, "tau_min": 6.0, "tau_max": 6.0} | options)
    sampler.learn([make_pool([0.0] * round(1000 * failures) + [1.0] * round(1000 * (1 - failures)))])
    return sampler


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (VIP(responses_per_prompt=8), [4, 7, 10, 11, 10, 6]),
        (VIP_DR_GRPO(responses_per_prompt=8), [3, 7, 11, 12, 11, 4]),
        (KnapsackSampler(responses_per_prompt=8), [2, 17, 12, 7, 8, 2]),
        (coba(0.4), [2, 2, 32, 8, 2, 2]),
        (coba(0.7), [2, 2, 2, 12, 28, 2]),
    ],
)
def test_golden_values(sampler, expected):
    assert planned(sampler, [seen(p) for p in GOLDEN]) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # 32 responses by 8 : 4 : 2 : 1 are 17.07, 8.53, 4.27, 2.13: the last one goes to 8.53
        ({"gamma": 0.5}, [17, 9, 4, 2]),
        # by 64 : 16 : 4 : 1, the last two at their lower bound: 28 by 4 : 1 are 22.4 and 5.6
        ({"gamma": 1.0}, [22, 6, 2, 2]),
        ({"gamma": 1.0, "n_min": 1}, [24, 6, 1, 1]),  # 30 by 4 : 1
        ({"gamma": 0.5, "n_max": 12, "group_size": 12}, [12, 11, 6, 3]),  # 20 by 4 : 2 : 1 are 11.43, 5.71, 2.86
        ({"gamma": 0.0}, [8, 8, 8, 8]),
        ({"gamma": 400.0}, [26, 2, 2, 2]),  # 64^400 is no float
    ],
)
def test_estimated_shares_follow_the_power_of_the_pass_rate_inside_the_bounds(options, expected):
    beliefs = [Belief(10 * rate, 10 * (1 - rate)) for rate in (1 / 64, 1 / 16, 1 / 4, 1.0 - 1e-9)]
    assert planned(EstimatedSampler(responses_per_prompt=8, **options), beliefs) == expected


def knapsack_value(p, n):
    return (1 - p**n - (1 - p) ** n) * p * (1 - p) ** 2


def coba_value(failures, *, tau_max=6.0):
    """The paper's equations, with tau from the variance of the pass rates as in the public code."""
    followed = failures if failures > 0.5 else 1 / (1 + math.exp(-10 * (failures - 0.5)))

    def value(p, n, rates):
        tau = 6.0 + (tau_max - 6.0) * min(np.var(rates) / 0.1667, 1.0)
        return (1 - math.exp(-n * p * (1 - p) / tau)) * beta_distribution.pdf(p, 1 + 9 * followed, 10 - 9 * followed)

    return value


DEMANDS_ALL = {"mixed_chance": 1 - 1e-9}
BOUNDS = {"responses_per_prompt": 8, "n_max": 16, "group_size": 16}


@pytest.mark.parametrize(
    ("sampler", "value"),
    [
        (VIP(**BOUNDS), lambda p, n, _: -p * (1 - p) / (n - 1)),
        (VIP_DR_GRPO(**BOUNDS), lambda p, n, _: -p * (1 - p) * (n - 1) / n**2),
        (KnapsackSampler(**BOUNDS, **DEMANDS_ALL), lambda p, n, _: knapsack_value(p, n)),
        *((coba(failures, **BOUNDS), coba_value(failures)) for failures in (0.1, 0.45, 0.8)),
        (coba(0.6, **BOUNDS, tau_max=30.0), coba_value(0.6, tau_max=30.0)),
    ],
)
def test_it_is_the_best_of_all_divisions_of_three_prompts(sampler, value):
    generator = np.random.default_rng(0)
    sizes = range(sampler.n_min, 17)
    divisions = [counts for counts in itertools.product(sizes, repeat=3) if sum(counts) == 24]
    for _ in range(20):
        rates = generator.uniform(0.02, 0.98, 3).tolist()
        worth = [{n: value(p, n, rates) for n in sizes} for p in rates]

        def total(counts, worth=worth):
            return math.fsum(table[n] for table, n in zip(worth, counts, strict=True))

        counts = sampler.divide([seen(p) for p in rates], 24)
        assert sum(counts) == 24
        assert total(counts) == pytest.approx(max(map(total, divisions)), rel=1e-9)


@every_sampler
@given(beliefs=any_beliefs(), mean=st.integers(3, 12))
def test_the_total_is_exact_and_the_bounds_hold(make, beliefs, mean):
    sampler = make(responses_per_prompt=mean, n_max=12, group_size=12)
    counts = planned(sampler, beliefs)
    assert sum(counts) == mean * len(beliefs)
    assert all(sampler.n_min <= count <= 12 for count in counts)


@pytest.mark.parametrize("sampler", [VIP(responses_per_prompt=8), KnapsackSampler(responses_per_prompt=8), coba(0.6)])
@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=8, unique=True), st.randoms())
def test_order_does_not_matter_up_to_ties(sampler, rates, generator):
    """Gains of different prompts can be equal: then the earlier one gets it, and it is one response at most."""
    if len({p * (1 - p) for p in rates}) < len(rates):  # VIP's ties of whole prompts
        return
    counts = planned(sampler, [seen(p) for p in rates])
    order = list(range(len(rates)))
    generator.shuffle(order)
    shuffled = planned(sampler, [seen(rates[i]) for i in order])
    assert max(abs(shuffled[place] - counts[i]) for place, i in enumerate(order)) <= 1


@every_sampler
def test_a_step_of_unknown_or_equal_prompts_is_uniform(make):
    sampler = make(responses_per_prompt=8, n_max=32, group_size=32)
    for belief in (UNKNOWN, seen(0.3), seen(0.0), seen(1.0)):
        assert planned(sampler, [belief] * 5) == [8] * 5
    assert planned(sampler, []) == []


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (VIP(responses_per_prompt=8), r"the gain of prompt 1 at 3 responses is nan; .* predicted pass rate\?"),
        (coba(), r"the gain of prompt \d at 2 responses is nan"),
        (KnapsackSampler(responses_per_prompt=8), r"pass rate of prompt 1 is nan: is what its estimator counts\?"),
    ],
)
def test_a_rate_that_is_no_number_is_refused_with_its_prompt(sampler, message):
    with pytest.raises(ValueError, match=message):
        planned(sampler, [seen(0.5), Belief(math.nan, 1.0, 16.0, math.nan)])


RATES = (0.01, 0.3, 0.5, 0.7)


def collect(sampler, grader=None):
    return collected(sampler, dict(enumerate(RATES)), grader=grader, beliefs=[seen(rate) for rate in RATES])


@every_sampler
def test_a_rollout_gives_every_prompt_its_planned_number_in_one_pass(make):
    sampler = make(responses_per_prompt=6)
    expected = planned(sampler, [seen(rate) for rate in RATES])
    planned(sampler, [seen(rate) for rate in RATES[:2]])  # whatever comes between, a repeated step has the same plan
    groups, stats = collect(sampler)
    assert [group.pool.num_sampled for group in groups] == [len(group.kept) for group in groups] == expected
    assert [group.pool.rule for group in groups] == [FixedRule(count) for count in expected]
    assert {response.round_index for group in groups for response in group.pool.responses} == {0}
    assert stats.num_drawn == sum(expected) == 24
    assert forecast([(0, 8), (4, 8), (8, 8), (1, 8)], sampler, AllSelection()).num_sampled == 6.0


def test_draws_without_a_grade_are_not_made_up_for_and_shorten_the_rule_that_the_pool_ended_by():
    failing = InstantGrader(lambda text: Verdict(None, failure="OSError") if text == "1" else Verdict(0.0))
    groups, stats = collect(EstimatedSampler(responses_per_prompt=6, gamma=0.0), failing)
    assert [group.pool.num_drawn for group in groups] == [6] * 4
    assert stats.num_failed > 0
    for pool in (group.pool for group in groups):
        assert pool.num_sampled + pool.num_failed == 6
        assert pool.rule == (CappedRule(FixedRule(6), pool.num_sampled) if pool.num_failed else FixedRule(6))


def test_a_forecast_plans_by_what_was_tried():
    """A prompt that failed 8 times of 8 is known: 2 responses each and 3 that the other demands leave 5 of surplus."""
    sampler = KnapsackSampler(responses_per_prompt=6)
    forecast([(0, 8), (4, 8)], sampler, AllSelection())
    assert [sampler.end(make_pool([], slot=slot)).rule for slot in (0, 1)] == [FixedRule(7), FixedRule(5)]


def test_a_prompt_without_responses_goes_through_the_whole_step():
    """A plan of one's own may leave a prompt out: it is counted, trains nothing and breaks no figure."""

    class LeavesOut(OneShotSampler):
        def divide(self, beliefs, total):
            return [0, 8, 8, 8]

    groups, stats = collect(LeavesOut(responses_per_prompt=6, n_min=1, n_max=32, group_size=32))
    assert (groups[0].pool.num_drawn, groups[0].kept, groups[0].has_signal) == (0, (), False)
    (batch,) = pack_groups(
        groups, num_minibatches=1, max_tokens_per_microbatch=1000, policy_version=0, shuffle_seed=0,
        keep_groups_without_signal=True, share_prompts=True,
    )  # fmt: skip
    assert (batch.counts.num_prompts, batch.counts.num_responses) == (4.0, 24.0)
    calibration = EstimatorCalibration()
    calibration.update([group.pool for group in groups])
    figures = RolloutMetrics()(RolloutResult(groups=tuple(groups), stats=stats, policy_version=0, step=0))
    figures |= {name: float(value) for name, value in calibration.compute().items()}
    assert figures["rollout/num_sampled"] == 24.0
    assert not any(map(math.isnan, figures.values()))


def test_a_plan_that_misses_the_total_is_a_bug_and_says_so():
    class Stingy(OneShotSampler):
        def divide(self, beliefs, total):
            return [1] * len(beliefs)

    sampler = Stingy(responses_per_prompt=4, n_min=1, n_max=8, group_size=8)
    with pytest.raises(AssertionError, match="Stingy planned 2 responses, not 8"):
        sampler.plan([make_pool([], slot=0), make_pool([], slot=1)])
