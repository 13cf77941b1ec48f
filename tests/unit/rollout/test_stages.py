"""Samplers that divide a step anew between stages, and those that give the rewards themselves."""

from __future__ import annotations

import pytest

from ada_lightning.rollout.collector import RolloutCollector
from ada_lightning.rollout.schedule import Barrier, Continuous
from ada_lightning.rollout.scripted import ScriptedEngine, ScriptedGrader
from ada_lightning.sampling import UniformSampler
from ada_lightning.selection import AllSelection
from ada_lightning.types import SamplingSettings
from tests.builders import decode, make_prompt

PASS_RATES = {1: 0.0, 2: 0.5, 3: 1.0}


class PilotSampler(UniformSampler):
    """Two responses for each prompt; then four more for whichever prompt has most positives."""

    def __init__(self):
        super().__init__(group_size=2)
        self.seen = []

    def plan(self, pools):
        self.wanted = {pool.slot: 2 for pool in pools}

    def begin_stage(self, pools):
        self.seen.append([(pool.slot, pool.num_drawn, pool.num_positive) for pool in pools])
        if len(self.seen) == 1:
            best = max(pools, key=lambda pool: (pool.num_positive, -pool.slot))
            self.wanted[best.slot] += 4

    def num_to_draw(self, pool):
        return self.wanted[pool.slot] - pool.num_drawn


class AlternatingLabels(UniformSampler):
    """Calls every second response right."""

    def labelled(self, pool):
        return [float(response.sample_index % 2) for response in pool.responses]


def collect(sampler, schedule):
    engine = ScriptedEngine(pass_rates=PASS_RATES, num_polls=lambda generator, right: generator.randrange(1, 20))
    groups, _ = RolloutCollector(decode=decode, seed=0, schedule=schedule).collect(
        [make_prompt(key) for key in PASS_RATES],
        engine=engine,
        grader=ScriptedGrader(),
        sampler=sampler,
        selection=AllSelection(),
        settings=SamplingSettings(max_new_tokens=4),
        stage="train",
        step=0,
        policy_version=0,
    )
    return [group.pool for group in groups]


@pytest.mark.parametrize(
    "schedule", [Barrier(), Continuous(), Continuous(fill_to=64)], ids=["barrier", "plain", "ahead"]
)
def test_a_stage_begins_when_every_prompt_has_finished_the_last_one(schedule):
    sampler = PilotSampler()
    pools = collect(sampler, schedule)
    assert [(slot, drawn) for slot, drawn, _ in sampler.seen[0]] == [(0, 2), (1, 2), (2, 2)]
    assert sampler.seen[0][2] == (2, 2, 2)
    assert [pool.num_drawn for pool in pools] == [2, 2, 6]
    assert [response.round_index for response in pools[2].responses] == [0, 0, 1, 1, 1, 1]


def test_labels_replace_the_rewards_and_every_count_made_of_them():
    (first, _, last) = collect(AlternatingLabels(group_size=4), Continuous())
    for pool in (first, last):
        assert [response.reward for response in pool.responses] == [0.0, 1.0, 0.0, 1.0]
        assert [response.is_positive for response in pool.responses] == [False, True, False, True]
        assert (pool.num_positive, pool.num_negative) == (2, 2)
        assert pool.first_round_rewards == [0.0, 1.0, 0.0, 1.0]
