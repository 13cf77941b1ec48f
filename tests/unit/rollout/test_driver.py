from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ada_lightning.core.records import Completion, SamplingSettings, Verdict
from ada_lightning.core.schedule import Continuous
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.methods.sampling import BalanceSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection
from ada_lightning.rollout.driver import Driver
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.probe import Probe
from ada_lightning.run.phase_clock import PhaseClock
from research.scripted import ScriptedEngine
from tests import builders
from tests.builders import InstantGrader, make_prompt

BALANCE = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)


def collect(prompts, engine=None, *, sampler=BALANCE, **options):
    return builders.collect(prompts, engine or ScriptedEngine(pass_rates={1: 0.5, 2: 0.0}), sampler, **options)


class WaitedForGrader(InstantGrader):
    """Has nothing ready until somebody waits for it."""

    num_at_first_wait = None

    def poll(self):
        return []

    def wait(self, timeout_s):
        self.num_at_first_wait = self.num_at_first_wait or self.num_graded
        return super().poll()


def test_the_engine_does_not_wait_for_graders_while_responses_wait_for_a_slot():
    grader = WaitedForGrader()
    engine = ScriptedEngine(pass_rates={1: 0.5}, max_num_seqs=4)
    collect([1], engine, grader=grader, sampler=UniformSampler(group_size=32))
    assert grader.num_at_first_wait == 32  # four at a time, all of a wave at once


@pytest.mark.parametrize(("stage", "phases"), [("train", {"outer", "grade"}), ("eval", {"outer"})])
def test_waiting_for_graders_is_learning_time_only_where_it_is_for_learning(stage, phases):
    clock = PhaseClock()
    with clock.phase("outer"):
        collect([1], grader=WaitedForGrader(), stage=stage, clock=clock)
    assert clock.total_seconds().keys() == phases


def test_pools_end_where_the_sampler_says():
    groups, stats = collect([1, 2])
    mixed, hopeless = (group.pool for group in groups)
    assert min(mixed.num_positive, mixed.num_negative) >= 2
    before_last_round = [response.is_positive for response in mixed.responses[:-4]]
    assert min(before_last_round.count(True), before_last_round.count(False)) < 2
    assert (hopeless.num_drawn, groups[1].has_signal) == (32, False)
    assert stats.num_drawn == stats.generated_tokens == mixed.num_drawn + 32


def test_number_of_draws_has_the_expectation_of_the_round_based_algorithm():
    """Exact sums for k = 2/2, blocks of 4, at most 32: E[N] = 19.4 at p = .1 and 6.8 at p = .5 (reference table)."""

    def slow_positives(generator, is_positive):
        return generator.randrange(20, 40) if is_positive else 1

    for pass_rate, expected in ((0.1, 19.4), (0.5, 6.8)):
        groups, _ = collect([1] * 1000, ScriptedEngine(pass_rates={1: pass_rate}, num_polls=slow_positives))
        draws = [group.pool.num_drawn for group in groups]
        mean = sum(draws) / len(draws)
        spread = math.sqrt(sum((n - mean) ** 2 for n in draws) / len(draws) / len(draws))
        assert abs(mean - expected) < 4 * spread + 0.05  # four standard errors, and the table's rounding


def test_a_prompt_twice_in_a_step_gets_different_responses():
    groups, _ = collect([1, 1], sampler=UniformSampler(group_size=32))
    first, second = ([r.is_positive for r in group.pool.responses] for group in groups)
    assert first != second


def test_a_prompt_without_room_is_skipped_counted_and_warned_about():
    engine = ScriptedEngine(pass_rates={1: 0.5, 2: 0.5}, max_model_tokens=8)
    with pytest.warns(RuntimeWarning, match="has 5 tokens, the engine has room for 4: skipped"):
        groups, stats = collect([make_prompt(1, num_tokens=5), 2], engine)
    assert [group.pool.prompt.prompt_id for group in groups] == ["p2"]
    assert (stats.num_skipped_prompts, stats.num_prompts) == (1, 1)


@pytest.mark.parametrize(
    ("reward", "grader_failure", "is_excluded"),
    [(None, "exclude", True), (0.0, "exclude", False), (None, "as_zero", False)],
)
def test_failed_grades_are_drawn_anew_unless_they_are_zeros(reward, grader_failure, is_excluded):
    """Of the response's own making (0.0) they are; others where the run says so."""
    grader = InstantGrader(lambda text: Verdict(reward, failure="ZeroDivisionError") if text == "1" else Verdict(0.0))
    groups, stats = collect([1], grader=grader, grader_failure=grader_failure)
    pool = groups[0].pool
    assert (pool.num_sampled, pool.num_positive) == (32, 0)
    assert stats.num_failed == stats.failures["ZeroDivisionError"] > 0
    assert pool.num_failed == stats.num_failed_excluded == (stats.num_failed if is_excluded else 0)
    assert pool.num_drawn == 32 + pool.num_failed


def test_a_grader_that_always_fails_ends():
    groups, _ = collect([1], grader=InstantGrader(lambda text: Verdict(None, failure="OSError")))
    assert (groups[0].pool.num_drawn, groups[0].pool.num_sampled) == (64, 0)


class CutEngine(ScriptedEngine):
    """Every positive response is cut by the length limit."""

    def poll(self):
        return [replace(generation, is_truncated=generation.response_ids == (1,)) for generation in super().poll()]


@pytest.mark.parametrize(("truncated", "has_positives"), [("grade", True), ("zero", False), ("exclude", False)])
def test_truncated_responses_are_graded_zero_or_no_evidence(truncated, has_positives):
    groups, stats = collect([1], CutEngine(pass_rates={1: 0.5}), truncated=truncated)
    pool = groups[0].pool
    assert (pool.num_positive > 0) is has_positives
    assert stats.num_truncated == sum(r.is_truncated for r in pool.responses) + pool.num_truncated_excluded > 0
    assert pool.num_truncated_excluded == (stats.num_truncated if truncated == "exclude" else 0)
    assert pool.num_drawn == pool.num_sampled + pool.num_truncated_excluded


def test_masked_truncations_count_and_never_train():
    selection = BalancedSelection(group_size=4)
    groups, _ = collect([1] * 20, CutEngine(pass_rates={1: 0.5}), selection=selection, truncated="mask")
    pools = [group.pool for group in groups]
    assert all(pool.num_positive >= 2 for pool in pools)
    assert all(not kept.response.is_truncated for group in groups for kept in group.kept)
    assert all(response.is_masked == response.is_truncated for pool in pools for response in pool.responses)


def test_a_broken_engine_is_an_engine_error_and_leaves_nothing_in_flight():
    class BreakingEngine(ScriptedEngine):
        num_polls_left = 3

        def poll(self):
            self.num_polls_left -= 1
            if self.num_polls_left == 0:
                raise RuntimeError("worker died")
            return super().poll()

    engine, grader = BreakingEngine(pass_rates={1: 0.0}, num_polls=lambda generator, is_positive: 2), InstantGrader()
    with pytest.raises(EngineError, match="RuntimeError: worker died"):
        collect([1], engine, grader=grader)
    assert (engine.num_in_flight(), grader.poll()) == (0, [])


def test_an_interrupt_aborts_what_is_in_flight():
    def interrupt():
        raise KeyboardInterrupt

    engine = ScriptedEngine(pass_rates={1: 0.5}, num_polls=lambda generator, is_positive: 100)
    with pytest.raises(KeyboardInterrupt):
        collect([1] * 3, engine, interrupt_check=interrupt)
    assert (engine.num_in_flight(), engine.num_aborted) == (0, 12)


class NoAbort(ScriptedEngine):
    """Breaks where it is asked to drop something."""

    def abort(self, request_ids):
        raise EngineError("no answer")


class Bounded(ScriptedEngine):
    def poll(self):
        assert self._clock < 1000, "the step waits for verdicts that nobody will tell it"
        return super().poll()


def test_no_verdict_is_lost_with_an_engine_that_breaks_where_one_of_them_drops_requests():
    settings = StepSettings(seed=0, schedule=Continuous(fill_to=64, min_chance=0.3, max_waste_ratio=10.0))
    step = Step([make_prompt(1)] * 4, sampler=BALANCE, selection=AllSelection(), settings=settings)
    driver = Driver(
        [step], sampling=SamplingSettings(max_new_tokens=4), settings=settings, grader=SlowGrader(),
        decode=builders.decode, outlives_engine=True,
    )  # fmt: skip
    options = {"pass_rates": {1: 0.3}, "num_polls": lambda generator, is_positive: generator.randrange(1, 20)}
    with pytest.raises(EngineError, match="no answer"):
        list(driver.run(NoAbort(**options)))
    assert list(driver.run(Bounded(**options))) == [step]


def test_a_grader_hears_how_a_response_ended_and_what_it_tells_stays_with_the_response():
    heard = set()

    class NotingGrader(InstantGrader):
        def submit(self, ticket, prompt, completion):
            heard.add(completion)
            super().submit(ticket, prompt, completion)

    grader = NotingGrader(lambda text: Verdict(float(text), answer=text, components={"half": 0.5}, is_cached=True))
    engine = CutEngine(pass_rates={1: 0.5})
    (group,), stats = collect([1], engine, grader=grader, sampler=UniformSampler(group_size=8))
    assert heard == {Completion("1", "length", 1), Completion("0", "stop", 1)}
    assert {(response.answer, response.reward) for response in group.pool.responses} == {("1", 1.0), ("0", 0.0)}
    assert all(response.components == {"half": 0.5} for response in group.pool.responses)
    assert stats.num_cache_hits == stats.num_drawn == 8


class LateProbe(ScriptedEngine):
    """Answers a probe last."""

    def poll(self):
        held = {name: self._running.pop(name) for name in list(self._running) if "canary" in name}
        if not self._running and self._clock > 30:
            self._running, held = held, {}
        found = super().poll()
        self._running |= held
        return found


def test_a_step_is_complete_when_what_its_version_was_asked_first_is_answered():
    said = []
    probe = Probe([(1,), (1, 1)], SamplingSettings(max_new_tokens=1), said.append)
    step = Step(
        [make_prompt(1)], sampler=UniformSampler(group_size=2), selection=AllSelection(), settings=StepSettings(seed=0)
    )
    engine = LateProbe(pass_rates={1: 0.5})
    driver = Driver(
        [step], sampling=SamplingSettings(max_new_tokens=4), settings=StepSettings(seed=0), grader=InstantGrader(),
        decode=str, probe_of=lambda opened: probe,
    )  # fmt: skip
    for complete in driver.run(engine):
        assert complete is step
        assert [len(generations) for generations in said] == [2]
    assert engine.num_in_flight() == 0


class OldestFirst(ScriptedEngine):
    """One engine for several versions: it comes to the younger one when the older step is complete."""

    def __init__(self, older, **options):
        super().__init__(**options)
        self.older, self.versions = older, {}

    def submit(self, request_id, *request, policy_version):
        self.versions[request_id] = policy_version
        super().submit(request_id, *request)

    def poll(self):
        assert self._clock < 1000, "what waits for the younger version keeps the older step from its end"
        wanted = int(self.older.is_complete)
        held = {name: self._running.pop(name) for name in list(self._running) if self.versions[name] != wanted}
        found = super().poll()
        self._running |= held
        return found


class SlowGrader(InstantGrader):
    """Says what it thinks every fifth time it is asked."""

    num_asked = 0

    def poll(self):
        self.num_asked += 1
        return [] if self.num_asked % 5 else super().poll()


def test_requests_that_wait_for_a_younger_version_take_no_slot_from_an_older_step():
    settings = StepSettings(seed=0)
    older, younger = (
        Step([make_prompt(1)], sampler=BALANCE, selection=AllSelection(), settings=settings, step=step,
             policy_version=step)
        for step in (0, 1)
    )  # fmt: skip
    engine = OldestFirst(older, pass_rates={1: 0.2}, max_num_seqs=4)
    driver = Driver(
        [older, younger], sampling=SamplingSettings(max_new_tokens=4), settings=settings, grader=SlowGrader(),
        decode=str, by_version=True,
    )  # fmt: skip
    assert list(driver.run(engine)) == [older, younger]
