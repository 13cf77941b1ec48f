"""A step that is filled up: which groups train, how many prompts it takes, and that latency decides neither."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ada_lightning.analysis.metrics.rollout import RolloutMetrics
from ada_lightning.core.records import Belief
from ada_lightning.core.step_records import RolloutResult
from ada_lightning.core.top_up import TopUp, refill_figures
from ada_lightning.methods.published.cppo import LargestAdvantageBatchSelection
from ada_lightning.methods.published.greso import AdaptiveDynamicSampling
from ada_lightning.methods.published.pilot_commit import PilotCommitSampler, ResolvedSelection
from ada_lightning.methods.published.reinforce_ada import EstimatedSampler
from ada_lightning.methods.refill import DynamicSampling
from ada_lightning.methods.sampling import BalanceSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.training.losses import (
    ConstantReduction,
    PromptMeanReduction,
    ResponseMeanReduction,
    TokenMeanReduction,
)
from ada_lightning.training.packing import pack_groups
from research.scripted import ScriptedEngine
from tests import builders
from tests.builders import make_group, make_prompt

NUM_PROMPTS = 200
PASS_RATES = {key: random.Random(key).choice([0.0, 0.0, 0.2, 0.6, 1.0]) for key in range(NUM_PROMPTS)}
WANTED = 6


def at_once(generator, is_positive):
    return 1


def random_latency(generator, is_positive):
    return generator.randrange(1, 60)


class Prompts:
    """An endless supply, or one with an end, that notes what it was asked."""

    def __init__(self, total=NUM_PROMPTS):
        self.total = total
        self.asked = []

    def draw(self, num_drawn, num_more):
        self.asked.append((num_drawn, num_more))
        keys = range(num_drawn, min(num_drawn + num_more, self.total))
        return [(make_prompt(key), Belief(1 + key, 1)) for key in keys]


def collect(
    refill, *, num_polls=at_once, sampler=None, selection=None, supply=None, pass_rates=PASS_RATES, max_num_seqs=16,
    wanted=WANTED, engine_class=ScriptedEngine, **engine_options,
):  # fmt: skip
    supply, selection = supply or Prompts(), selection or AllSelection()
    top_up = TopUp(refill, wanted, supply.draw, selection)
    first = supply.draw(0, refill.first_wave(wanted))
    engine = engine_class(pass_rates=pass_rates, num_polls=num_polls, max_num_seqs=max_num_seqs, **engine_options)
    groups, stats = builders.collect(
        [prompt for prompt, _ in first], engine, sampler or UniformSampler(group_size=4), selection=selection,
        beliefs=[belief for _, belief in first], top_up=top_up,
    )  # fmt: skip
    assert engine.num_in_flight() == 0
    return groups, stats, top_up


REFILLS = {
    "one at a time": DynamicSampling(refill_ratio=0.0),
    "waves": DynamicSampling(refill_ratio=0.5),
    "dapo": DynamicSampling(oversampling=3, refill_ratio=3, max_ratio=30),
    "greso": AdaptiveDynamicSampling(),
}


@pytest.mark.parametrize("name", REFILLS)
def test_the_first_groups_with_a_signal_train_in_the_order_of_the_prompts(name):
    groups, _, top_up = collect(REFILLS[name])
    training = [group for group in groups if group.kept]
    assert len(training) == WANTED
    assert all(group.has_signal for group in training)
    with_signal = [group for group in groups if group.pool.has_signal]
    assert training == with_signal[:WANTED]
    assert [group.pool.slot for group in groups] == list(range(len(groups)))
    division = top_up.divide([group.pool for group in groups])
    assert [pool.slot for pool in division.trained] == [group.pool.slot for group in training]
    assert len(division.surplus) == len(with_signal) - WANTED
    filtered = [*division.all_correct, *division.all_wrong]
    assert len(filtered) + len(with_signal) == len(groups)
    assert all(pool.num_positive == pool.num_sampled for pool in division.all_correct)
    assert all(pool.num_positive == 0 for pool in division.all_wrong)
    assert division.all_correct
    assert division.all_wrong


@pytest.mark.parametrize("name", REFILLS)
def test_the_share_of_prompts_with_a_signal_does_not_depend_on_how_many_were_needed(name):
    groups, stats, _ = collect(REFILLS[name], num_polls=random_latency)
    figures = RolloutMetrics()(RolloutResult(step=0, policy_version=0, groups=groups, stats=stats))
    share = sum(group.pool.has_signal for group in groups) / len(groups)
    assert figures["rollout/signal_ratio"] == pytest.approx(share)
    assert figures["rollout/num_trained"] == 4 * WANTED


def test_a_sampler_that_divides_a_step_divides_every_wave_by_itself():
    class Watched(EstimatedSampler):
        def __init__(self):
            super().__init__(responses_per_prompt=4, n_min=2, n_max=8, group_size=8)
            self.waves = []

        def plan(self, pools, stage=0):
            super().plan(pools, stage)
            self.waves.append([pool.slot for pool in pools])

    sampler = Watched()
    groups, _, _ = collect(REFILLS["waves"], sampler=sampler, num_polls=random_latency)
    assert sampler.waves[0] == list(range(6))
    assert [slot for wave in sampler.waves for slot in wave] == list(range(len(groups)))
    assert {len(wave) for wave in sampler.waves[1:]} == {3}
    totals = [sum(groups[slot].pool.num_drawn for slot in wave) for wave in sampler.waves]
    assert totals == [4 * len(wave) for wave in sampler.waves]


class Staged(UniformSampler):
    """Two responses each; then four more for the prompt of the wave with most positives."""

    def __init__(self):
        super().__init__(group_size=2)
        self.stages = []

    num_stages = 2

    def plan(self, pools, stage=0):
        if stage == 0:
            self.wanted = {pool.slot: 2 for pool in pools}
            return
        self.stages.append([pool.slot for pool in pools])
        self.wanted[max(pools, key=lambda pool: (pool.num_positive, -pool.slot)).slot] += 4

    def num_to_draw(self, pool):
        return self.wanted[pool.slot] - pool.num_drawn


def test_stages_are_those_of_a_wave():
    sampler = Staged()
    groups, _, _ = collect(REFILLS["waves"], sampler=sampler, num_polls=random_latency)
    assert [len(stage) for stage in sampler.stages] == [6] + [3] * (len(sampler.stages) - 1)
    assert sampler.stages[0] == list(range(6))
    assert sorted(slot for stage in sampler.stages for slot in stage) == list(range(len(groups)))


def test_one_at_a_time_draws_no_prompt_too_many():
    groups, stats, top_up = collect(REFILLS["one at a time"], num_polls=random_latency)
    assert groups[-1].pool.has_signal or groups[-2].pool.has_signal
    assert top_up.divide([group.pool for group in groups]).surplus == ()
    assert stats.num_prompts == len(groups)


def test_waves_overlap():
    """The next wave does not wait for the slowest response of the last one, so the step ends sooner."""

    class WithBarrier(DynamicSampling):
        def next_wave(self, progress):
            return 0 if progress.num_open else super().next_wave(progress)

    num_polls = Counter()
    for refill in (DynamicSampling, WithBarrier):

        class Counting(ScriptedEngine):
            def poll(self, refill=refill):
                num_polls[refill] += 1
                return super().poll()

        collect(refill(refill_ratio=0.5), num_polls=random_latency, max_num_seqs=64, engine_class=Counting)
    assert num_polls[DynamicSampling] < num_polls[WithBarrier]


@pytest.mark.parametrize("pass_rate", [0.0, 1.0])
@pytest.mark.parametrize("name", REFILLS)
def test_data_without_a_signal_ends_at_the_cap_and_trains_on_nothing(name, pass_rate):
    refill = REFILLS[name]
    groups, stats, top_up = collect(refill, pass_rates=dict.fromkeys(PASS_RATES, pass_rate))
    assert len(groups) == stats.num_prompts == refill.max_ratio * WANTED
    assert stats.num_drawn == stats.generated_tokens == 4 * len(groups)
    assert all(group.kept == () for group in groups)
    division = top_up.divide([group.pool for group in groups])
    assert len(division.all_correct if pass_rate else division.all_wrong) == len(groups)
    (batch,) = pack(())
    assert batch.microbatches == ()


def test_the_cap_leaves_fewer_groups_and_they_train():
    refill = DynamicSampling(refill_ratio=0.0, max_ratio=1.0)
    groups, _, _ = collect(refill)
    assert len(groups) == WANTED
    assert 0 < sum(bool(group.kept) for group in groups) < WANTED


def test_a_supply_that_ends_ends_the_step():
    supply = Prompts(total=9)
    groups, _, _ = collect(REFILLS["waves"], supply=supply)
    assert len(groups) == 9
    assert supply.asked[-1] == (9, 3)
    groups, stats, _ = collect(REFILLS["waves"], supply=Prompts(total=0))
    assert (groups, stats.num_prompts) == ((), 0)


def test_prompts_without_room_are_skipped_and_others_come_in_their_stead():
    class Long(Prompts):
        def draw(self, num_drawn, num_more):
            return [
                (make_prompt(int(p.prompt_id[1:]), num_tokens=9), b) if int(p.prompt_id[1:]) % 2 else (p, b)
                for p, b in super().draw(num_drawn, num_more)
            ]

    with pytest.warns(RuntimeWarning, match="skipped"):
        groups, stats, _ = collect(REFILLS["waves"], supply=Long(), max_model_tokens=10)
    assert sum(bool(group.kept) for group in groups) == WANTED
    assert stats.num_skipped_prompts > 0
    assert all(group.pool.slot % 2 == 0 for group in groups)


def test_a_selection_of_the_batch_sees_what_trains_and_nothing_else():
    class Watching(LargestAdvantageBatchSelection):
        def select_all(self, pools):
            self.seen = [pool.slot for pool in pools]
            return super().select_all(pools)

    selection = Watching(rate=0.5, normalize_std=True)
    groups, _, top_up = collect(REFILLS["dapo"], selection=selection)
    division = top_up.divide([group.pool for group in groups])
    assert selection.seen == [pool.slot for pool in division.trained]
    assert sum(len(group.kept) for group in groups) == 2 * WANTED


@pytest.mark.parametrize("name", REFILLS)
def test_groups_that_the_selection_turns_down_are_not_those_wanted(name):
    """A pilot with one right of eight has a signal and is deferred: other prompts come in its stead."""
    selection = ResolvedSelection(selection=AllSelection())
    sampler = PilotCommitSampler(num_pilot=8, num_commit=4, min_rate=0.25, max_rate=0.75, group_size=12)
    groups, _, top_up = collect(REFILLS[name], sampler=sampler, selection=selection, num_polls=random_latency)
    division = top_up.divide([group.pool for group in groups])
    assert [len(group.kept) for group in groups if group.kept] == [12] * WANTED
    assert [pool.slot for pool in division.trained] == [group.pool.slot for group in groups if group.kept]
    assert division.turned_down
    assert all(pool.has_signal and pool.num_sampled == 8 for pool in division.turned_down)
    assert all(not pool.has_signal for pool in (*division.all_correct, *division.all_wrong))
    filtered = len(division.turned_down) + len(division.all_correct) + len(division.all_wrong)
    figures = refill_figures(division, num_groups=WANTED, num_drawn=len(groups))
    num_signal = WANTED + len(division.surplus)
    assert figures["rollout/filtered_groups"] == filtered == len(groups) - num_signal
    assert figures["rollout/signal_share"] == pytest.approx(num_signal / len(groups))


def test_a_budget_of_the_step_does_not_go_with_it():
    sampler = BalanceSampler(k_pos=1, k_neg=1, samples_per_round=2, n_max=8, group_size=2, budget_per_step=99)
    with pytest.raises(ValueError, match=r"budget_per_step = 99 .* use refill\.max_ratio"):
        collect(REFILLS["waves"], sampler=sampler)


def pack(groups, num_minibatches=1):
    return pack_groups(
        groups, num_minibatches=num_minibatches, max_tokens_per_microbatch=1000, policy_version=0, shuffle_seed=0,
        keep_groups_without_signal=False, share_prompts=True,
    )  # fmt: skip


def test_denominators_are_those_of_the_groups_that_train():
    """DAPO divides by the tokens it trains on: what was filtered is in no denominator."""
    groups, _, _ = collect(REFILLS["waves"])
    training = [group for group in groups if group.kept]
    (batch,) = pack(training)
    assert batch.counts.num_prompts == WANTED
    assert batch.counts.num_responses == batch.counts.num_response_tokens == 4 * WANTED  # one token each
    for reduction in (ConstantReduction(token_scale=1), PromptMeanReduction(token_scale=1), ResponseMeanReduction(),
                      TokenMeanReduction()):  # fmt: skip
        weights = sum(
            float((reduction.token_weights(m, batch.counts) * m.num_tokens_B).sum()) for m in batch.microbatches
        )
        assert weights == pytest.approx(4.0 if isinstance(reduction, ConstantReduction) else 1.0)


@pytest.mark.parametrize("num_groups", [1, 3, 5])
def test_fewer_groups_than_minibatches_weigh_as_much_as_they_would_in_full_ones(num_groups):
    groups = [make_group([1.0, 0.0], slot=slot) for slot in range(num_groups)]
    batches = pack(groups, num_minibatches=4)
    assert len(batches) == 4
    assert sum(len(batch.microbatches) for batch in batches) == min(num_groups, 4)
    assert {batch.counts.num_prompts for batch in batches} == {max(num_groups / 4, 1.0)}
    assert {batch.counts.num_response_tokens for batch in batches} == {4 * max(num_groups / 4, 1.0)}
