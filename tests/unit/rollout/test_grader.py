"""With verdicts at fixed engine steps nothing depends on when graders answer."""

from __future__ import annotations

import random

import pytest

from ada_lightning.core.records import Completion, Verdict
from ada_lightning.core.schedule import Continuous
from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.rollout.grader import StepwiseGrader
from research.scripted import ScriptedEngine
from tests.builders import InstantGrader, collect, make_prompt


class LateGrader(InstantGrader):
    """Answers each poll with a random part of what is ready, in random order."""

    def __init__(self, seed):
        super().__init__()
        self._random = random.Random(seed)

    def poll(self):
        self._random.shuffle(self._ready)
        count = self._random.randint(0, len(self._ready))
        taken, self._ready = self._ready[:count], self._ready[count:]
        return taken


class RecordingEngine(ScriptedEngine):
    """Notes which requests run at each step."""

    def __init__(self, **options):
        super().__init__(**options)
        self.batches = []

    def poll(self):
        self.batches.append(tuple(self._running))
        return super().poll()


def batches_of(seed, **options):
    engine = RecordingEngine(
        pass_rates={1: 0.5, 2: 0.1, 3: 0.9},
        num_polls=lambda generator, is_positive: generator.randint(1, 9),
        max_num_seqs=12,
    )
    sampler = BalanceSampler(k_pos=3, k_neg=3, n_max=24, samples_per_round=4, group_size=4)
    schedule = Continuous(fill_to=12)
    groups, stats = collect([1, 2, 3], engine, sampler, grader=LateGrader(seed), schedule=schedule, **options)
    return engine.batches, stats.wasted_tokens, groups


@pytest.mark.parametrize("delay", [0, 1, 5])
def test_the_engines_batches_are_the_same_however_graders_answer(delay):
    outcomes = [batches_of(seed, reproducible=True, verdict_delay=delay) for seed in range(5)]
    assert all(outcome == outcomes[0] for outcome in outcomes)


def test_without_it_they_are_not_but_the_pools_are():
    outcomes = [batches_of(seed) for seed in range(5)]
    assert any(outcome[0] != outcomes[0][0] for outcome in outcomes)
    assert all(outcome[2] == outcomes[0][2] for outcome in outcomes)


def submit(grader, *tickets):
    for ticket in tickets:
        grader.submit(ticket, make_prompt(1), Completion("1", "stop"))


def test_a_verdict_comes_at_its_step_and_not_before():
    grader = StepwiseGrader(InstantGrader(), delay=2)
    submit(grader, "a")
    assert grader.poll() == []
    submit(grader, "b")
    assert grader.poll() == [("a", Verdict(1.0))]
    assert grader.poll() == [("b", Verdict(1.0))]


def test_an_idle_engine_is_given_what_is_due_next_at_once():
    grader = StepwiseGrader(InstantGrader(), delay=50)
    submit(grader, "a", "b")
    grader.poll()
    submit(grader, "c")
    assert [ticket for ticket, _ in grader.wait(0.0)] == ["a", "b"]
    assert [ticket for ticket, _ in grader.wait(0.0)] == ["c"]
    assert grader.wait(0.0) == []


def test_what_is_left_of_another_collection_is_ignored():
    inner = InstantGrader()
    submit(inner, "old")
    grader = StepwiseGrader(inner, delay=0)
    submit(grader, "new")
    assert grader.poll() == [("new", Verdict(1.0))]


def test_waiting_can_be_interrupted():
    class NeverGrader(InstantGrader):
        def poll(self):
            return []

    def interrupt():
        raise KeyboardInterrupt

    grader = StepwiseGrader(NeverGrader(), delay=0, interrupt_check=interrupt)
    submit(grader, "a")
    with pytest.raises(KeyboardInterrupt):
        grader.poll()
