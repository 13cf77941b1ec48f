from __future__ import annotations

from dataclasses import replace

import pytest

from ada_lightning.rollout.collector import RolloutCollector
from ada_lightning.rollout.scripted import ScriptedEngine, ScriptedGrader
from ada_lightning.rollout.speculation import Speculation
from ada_lightning.sampling import BalanceSampler, PositiveSampler, UniformSampler
from ada_lightning.selection import BalancedSelection
from ada_lightning.types import SamplingSettings
from tests.builders import decode, make_prompt

PASS_RATES = {1: 0.02, 2: 0.2, 3: 0.6, 4: 0.97}
SIZES = {"samples_per_round": 4, "n_max": 32, "group_size": 4}


class CountingEngine(ScriptedEngine):
    """Remembers how many requests ran at once, and at the end of the step."""

    def __init__(self, **options):
        super().__init__(pass_rates=PASS_RATES, **options)
        self.in_flight = []

    def poll(self):
        self.in_flight.append(self.num_in_flight())
        return super().poll()


def random_latency(generator, is_positive):
    return generator.randrange(1, 30)


def collect(speculation, *, num_polls=random_latency, sampler=None, num_prompts=16):
    engine = CountingEngine(num_polls=num_polls)
    collector = RolloutCollector(decode=decode, seed=0, speculation=speculation)
    groups, stats = collector.collect(
        [make_prompt(key) for key in PASS_RATES] * (num_prompts // 4),
        engine=engine,
        grader=ScriptedGrader(),
        sampler=sampler or BalanceSampler(k_pos=2, k_neg=2, **SIZES),
        selection=BalancedSelection(group_size=4),
        settings=SamplingSettings(max_new_tokens=4),
        stage="train",
        step=0,
        policy_version=0,
    )
    pools = [[(r.sample_index, r.round_index, r.is_positive) for r in group.pool.responses] for group in groups]
    return pools, stats, engine


PLENTY = Speculation(fill_to=64, min_chance=0.3, max_waste_ratio=10.0)


@pytest.mark.parametrize(
    "num_polls",
    [lambda generator, is_positive: 1, random_latency, lambda generator, is_positive: 25 if is_positive else 2],
    ids=["at once", "random", "positives last"],
)
@pytest.mark.parametrize(
    "sampler",
    [BalanceSampler(k_pos=2, k_neg=2, **SIZES), PositiveSampler(k_pos=1, **SIZES), UniformSampler(group_size=4)],
    ids=["balance", "pos", "uniform"],
)
def test_the_pools_are_the_very_same(sampler, num_polls):
    without, _, _ = collect(Speculation(), num_polls=num_polls, sampler=sampler)
    ahead, _, engine = collect(PLENTY, num_polls=num_polls, sampler=sampler)
    assert ahead == without
    assert engine.num_in_flight() == 0


def test_the_step_takes_fewer_polls_because_the_engine_runs_fuller():
    _, _, plain = collect(Speculation())
    _, stats, ahead = collect(PLENTY)
    assert len(ahead.in_flight) < 0.75 * len(plain.in_flight)
    assert sum(ahead.in_flight) / len(ahead.in_flight) > sum(plain.in_flight) / len(plain.in_flight)
    assert stats.wasted_tokens > 0


def test_what_is_dropped_is_counted_and_not_committed():
    """One token a response: finished ones that were dropped are the waste, running ones are aborted."""
    _, plain, _ = collect(Speculation())
    _, ahead, engine = collect(PLENTY)
    assert ahead.num_drawn == plain.num_drawn
    assert ahead.generated_tokens == plain.generated_tokens
    assert (plain.wasted_tokens, ahead.wasted_tokens > 0, engine.num_aborted > 0) == (0, True, True)


class TruncatingEngine(CountingEngine):
    """Cuts wrong responses, so that their verdicts are known while the poll that brought them is still being read."""

    def poll(self):
        return [replace(generation, is_truncated=generation.response_ids[0] == 0) for generation in super().poll()]


@pytest.mark.parametrize("truncated", ["zero", "exclude"])
def test_what_is_dropped_may_have_finished_in_the_very_same_poll(truncated):
    engine = TruncatingEngine(num_polls=lambda generator, is_positive: 1 if is_positive else 4)
    collector = RolloutCollector(decode=decode, seed=0, speculation=PLENTY, truncated=truncated)
    groups, stats = collector.collect(
        [make_prompt(key) for key in PASS_RATES] * 4,
        engine=engine,
        grader=ScriptedGrader(),
        sampler=PositiveSampler(k_pos=1, **SIZES),
        selection=BalancedSelection(group_size=4),
        settings=SamplingSettings(max_new_tokens=4),
        stage="train",
        step=0,
        policy_version=0,
    )
    assert stats.num_drawn == sum(group.pool.num_drawn for group in groups)
    assert engine.num_in_flight() == 0


def test_waste_is_bounded():
    """Checked before each launch, so one launch per prompt may go over."""
    _, stats, _ = collect(Speculation(fill_to=64, min_chance=0.01, max_waste_ratio=0.02), num_prompts=400)
    _, wild, _ = collect(Speculation(fill_to=64, min_chance=0.01, max_waste_ratio=10.0), num_prompts=400)
    assert stats.wasted_tokens <= 0.02 * stats.generated_tokens + 64 + 3
    assert wild.wasted_tokens >= stats.wasted_tokens


def test_nothing_is_drawn_ahead_without_reason():
    for sampler, speculation in (
        (BalanceSampler(k_pos=2, k_neg=2, **SIZES), Speculation(fill_to=0)),
        (BalanceSampler(k_pos=2, k_neg=2, budget_per_step=500, **SIZES), PLENTY),
        (UniformSampler(group_size=4), PLENTY),
    ):
        _, stats, engine = collect(speculation, sampler=sampler)
        assert (stats.wasted_tokens, engine.num_aborted) == (0, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fill_to": -1}, r"speculation.fill_to must be 0 \(off\) or positive; got -1"),
        ({"min_chance": 0.0}, r"speculation.min_chance must be in \(0, 1\]; got 0.0"),
        ({"max_waste_ratio": -0.1}, "speculation.max_waste_ratio must not be negative; got -0.1"),
    ],
)
def test_values_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Speculation(**options)
