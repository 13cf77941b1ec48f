"""What every sampler does that plans a step beforehand, through a whole collection."""

from __future__ import annotations

import pytest

from ada_lightning.analysis.metrics.calibration import EstimatorCalibration
from ada_lightning.analysis.metrics.rollout import RolloutMetrics
from ada_lightning.core.records import SamplingSettings
from ada_lightning.core.result import RolloutResult
from ada_lightning.core.stopping import FixedRule
from ada_lightning.methods.sampling import CobaSampler, EstimatedSampler, KnapsackSampler, RlooVariance, VipSampler
from ada_lightning.methods.sampling.forecast import forecast
from ada_lightning.methods.sampling.planned import OneShotSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.engines.scripted import ScriptedEngine
from ada_lightning.training.packing import pack_groups
from tests.builders import Collector, InstantGrader, decode, make_pool, make_prompt
from tests.unit.methods.sampling.beliefs import planned, seen

RATES = (0.01, 0.3, 0.5, 0.7)
SAMPLERS = [
    EstimatedSampler(responses_per_prompt=6),
    VipSampler(responses_per_prompt=6, variance=RlooVariance()),
    VipSampler(responses_per_prompt=6, variance=RlooVariance(), min_keep=4),
    KnapsackSampler(responses_per_prompt=6),
    CobaSampler(responses_per_prompt=6),
    CobaSampler(responses_per_prompt=6, official_buckets=True),
]


def collect(sampler):
    collector = Collector(decode=decode, seed=0)
    rates = dict(enumerate(RATES))
    return collector.collect(
        [make_prompt(key) for key in rates],
        engine=ScriptedEngine(pass_rates=rates, num_polls=lambda generator, is_positive: generator.randrange(1, 20)),
        grader=InstantGrader(),
        sampler=sampler,
        selection=AllSelection(),
        settings=SamplingSettings(max_new_tokens=4),
        stage="train",
        step=0,
        policy_version=0,
        beliefs=[seen(rate) for rate in RATES],
    )


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def test_a_collection_gives_every_prompt_its_planned_number_in_one_pass(sampler):
    expected = planned(sampler, [seen(rate) for rate in RATES])
    groups, stats = collect(sampler)
    assert [group.pool.num_sampled for group in groups] == [len(group.kept) for group in groups] == expected
    assert [group.pool.rule for group in groups] == [FixedRule(count) for count in expected]
    assert {response.round_index for group in groups for response in group.pool.responses} == {0}
    assert stats.num_drawn == sum(expected) == 24


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def test_a_repeated_step_has_the_same_plan_whatever_came_between(sampler):
    beliefs = [seen(rate) for rate in RATES]
    expected = planned(sampler, beliefs)
    planned(sampler, beliefs[:2])
    assert planned(sampler, beliefs) == expected


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def test_a_forecast_spends_the_same_total(sampler):
    assert forecast([(0, 8), (4, 8), (8, 8), (1, 8)], sampler, AllSelection()).num_sampled == 6.0


def test_a_forecast_plans_by_what_was_tried():
    """A prompt that failed 8 times of 8 is known: 2 responses each and 3 that the other demands leave 5 of surplus."""
    sampler = KnapsackSampler(responses_per_prompt=6)
    forecast([(0, 8), (4, 8)], sampler, AllSelection())
    assert [sampler.end(make_pool([], slot=slot)).rule for slot in (0, 1)] == [FixedRule(7), FixedRule(5)]


def test_a_prompt_without_responses_goes_through_the_whole_step():
    """``min_keep`` leaves the hardest prompt out: it is counted, trains nothing and breaks no figure."""
    groups, stats = collect(SAMPLERS[2])
    empty = groups[0]
    assert empty.pool.num_drawn == 0
    assert not empty.kept
    assert not empty.has_signal
    (batch,) = pack_groups(
        groups,
        num_minibatches=1,
        max_tokens_per_microbatch=1000,
        policy_version=0,
        shuffle_seed=0,
        keep_groups_without_signal=True,
        share_prompts=True,
    )
    assert batch.counts.num_prompts == 4.0
    assert batch.counts.num_responses == 24.0
    metrics, calibration = RolloutMetrics(), EstimatorCalibration()
    metrics.update(RolloutResult(groups=tuple(groups), stats=stats, policy_version=0, step=0))
    calibration.update([group.pool for group in groups])
    figures = {name: float(value) for name, value in (metrics.compute() | calibration.compute()).items()}
    assert figures["rollout/num_sampled"] == 24.0
    assert all(value == value for value in figures.values())


def test_a_plan_that_misses_the_total_is_a_bug_and_says_so():
    class Stingy(OneShotSampler):
        def divide(self, beliefs, total):
            return [1] * len(beliefs)

    sampler = Stingy(responses_per_prompt=4, n_min=1, n_max=8, group_size=8)
    with pytest.raises(AssertionError, match="Stingy planned 2 responses, not 8"):
        sampler.plan([make_pool([], slot=0), make_pool([], slot=1)])
