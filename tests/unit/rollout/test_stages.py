"""Samplers that divide a step anew between stages, and those that give the rewards themselves."""

from __future__ import annotations

import pytest

from ada_lightning.core.protocols import PoolEnd, Trait
from ada_lightning.core.records import Verdict
from ada_lightning.core.schedule import Barrier, Continuous
from ada_lightning.core.stopping import PilotRule
from ada_lightning.methods.published.speed import SpeedSampler
from ada_lightning.methods.sampling import PilotSampler, UniformSampler
from research.scripted import ScriptedEngine
from tests import builders
from tests.builders import InstantGrader

PASS_RATES = {1: 0.0, 2: 0.5, 3: 1.0}


class StagedSampler(UniformSampler):
    """Two responses each; then four more for whichever has most positives; then two for the first."""

    num_stages = 3

    def __init__(self):
        super().__init__(group_size=2)
        self.seen = []

    def plan(self, pools, stage=0):
        if stage == 0:
            self.wanted = {pool.slot: 2 for pool in pools}
            return
        self.seen.append([(pool.slot, pool.num_drawn) for pool in pools])
        if stage == 1:
            self.wanted[max(pools, key=lambda pool: (pool.num_positive, -pool.slot)).slot] += 4
        else:
            self.wanted[0] += 2

    def num_to_draw(self, pool):
        return self.wanted[pool.slot] - pool.num_drawn


class SixAfterNone(PilotSampler):
    """A pilot of two; six in all where none of them is right, else four."""

    def make_rule(self):
        return PilotRule((6, 4, 4))


class AlternatingLabels(UniformSampler):
    """Calls every second response right."""

    traits = frozenset({Trait.GIVES_REWARDS})

    def end(self, pool):
        return PoolEnd(rewards=[float(response.sample_index % 2) for response in pool.responses])


def collect(sampler, schedule, pass_rates=PASS_RATES, grader=None, slowest=19):
    engine = ScriptedEngine(pass_rates=pass_rates, num_polls=lambda generator, right: generator.randint(1, slowest))
    groups, _ = builders.collect(pass_rates, engine, sampler, grader=grader, schedule=schedule)
    return [group.pool for group in groups]


@pytest.mark.parametrize(
    "schedule", [Barrier(), Continuous(), Continuous(fill_to=64)], ids=["barrier", "plain", "ahead"]
)
def test_a_stage_begins_when_every_prompt_has_finished_the_last_one(schedule):
    """And a prompt that wants nothing in a stage may want more in a later one."""
    sampler = StagedSampler()
    pools = collect(sampler, schedule)
    assert sampler.seen == [[(0, 2), (1, 2), (2, 2)], [(0, 2), (1, 2), (2, 6)]]
    assert [pool.num_drawn for pool in pools] == [4, 2, 6]
    assert [response.round_index for response in pools[0].responses] == [0, 0, 1, 1]
    assert [response.round_index for response in pools[2].responses] == [0, 0, 1, 1, 1, 1]


def test_a_pool_whose_grades_fail_ends_by_the_rule_cut_off_where_it_is():
    """Of the prompt that is always right nothing can be graded; of one that is right half the time, the wrong ones."""
    failing = InstantGrader(lambda text: Verdict(None, failure="OSError") if text == "1" else Verdict(0.0))
    sampler = SpeedSampler(num_screen=4, num_continue=2, group_size=6)
    hopeless, _, right = collect(sampler, Continuous(), grader=failing)
    assert hopeless.rule == sampler.rule
    assert (right.num_sampled, right.num_failed) == (0, 12)
    assert right.rule == PilotRule((0,), is_screen=True)
    assert not right.is_resolved


def test_a_pool_cut_off_where_another_pilot_would_have_ended_is_known_as_cut_off():
    """Nothing right in the pilot asks for six; after one right of four no grade comes any more."""
    verdicts = iter([0.0, 0.0, 1.0, 0.0])
    grader = InstantGrader(
        lambda text: Verdict(None, failure="OSError") if (reward := next(verdicts, None)) is None else Verdict(reward)
    )
    sampler = SixAfterNone(group_size=6)
    (pool,) = collect(sampler, Continuous(), {1: 0.5}, grader, slowest=1)
    assert (pool.num_positive, pool.num_negative, pool.num_drawn) == (1, 3, 12)
    assert sampler.rule.stops(1, 3)  # had the right one been in the pilot
    assert pool.rule == PilotRule((4, 4, 4))


def test_labels_replace_the_rewards_and_every_count_made_of_them():
    (first, _, last) = collect(AlternatingLabels(group_size=4), Continuous())
    for pool in (first, last):
        assert [response.reward for response in pool.responses] == [0.0, 1.0, 0.0, 1.0]
        assert [response.is_positive for response in pool.responses] == [False, True, False, True]
        assert (pool.num_positive, pool.num_negative) == (2, 2)
        assert pool.first_round_rewards == [0.0, 1.0, 0.0, 1.0]
