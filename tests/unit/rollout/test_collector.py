from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ada_lightning.core.records import Completion, Generation, Grade, SamplingSettings
from ada_lightning.methods.sampling import BalanceSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.scripted import ScriptedEngine
from ada_lightning.rollout.phase_clock import PhaseClock
from tests.builders import Collector, InstantGrader, decode, make_prompt

SETTINGS = SamplingSettings(max_new_tokens=4)


def collect(
    prompts,
    engine,
    *,
    grader=None,
    sampler=None,
    selection=None,
    step=0,
    stage="train",
    clock=None,
    interrupt_check=lambda: None,
    **options,
):
    collector = Collector(decode=decode, seed=0, **options)
    return collector.collect(
        prompts,
        engine=engine,
        grader=grader or InstantGrader(),
        sampler=sampler or BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4),
        selection=selection or BalancedSelection(group_size=4),
        settings=SETTINGS,
        stage=stage,
        step=step,
        policy_version=3,
        clock=clock or PhaseClock(),
        interrupt_check=interrupt_check,
    )


def slow_positives(generator, is_positive):
    return generator.randrange(20, 40) if is_positive else 1


def random_latency(generator, is_positive):
    return generator.randrange(1, 50)


def test_the_engine_does_not_wait_for_graders_while_responses_wait_for_a_slot():
    class SlowGrader(InstantGrader):
        """Has verdicts for those only who wait for them."""

        num_at_first_wait = None

        def poll(self):
            return []

        def wait(self, timeout_s):
            self.num_at_first_wait = self.num_at_first_wait or self.num_graded
            return super().poll()

    grader = SlowGrader()
    collect([make_prompt(1)], ScriptedEngine(pass_rates={1: 0.5}, max_num_seqs=4), grader=grader,
            sampler=UniformSampler(group_size=32), selection=AllSelection())  # fmt: skip
    assert grader.num_at_first_wait == 32  # four at a time, all of a wave at once


def test_pools_end_where_the_sampler_says():
    groups, stats = collect([make_prompt(1), make_prompt(2)], ScriptedEngine(pass_rates={1: 0.5, 2: 0.0}))
    mixed, hopeless = (group.pool for group in groups)
    assert mixed.num_positive >= 2
    assert mixed.num_negative >= 2
    assert hopeless.num_drawn == 32
    assert not groups[1].has_signal
    assert stats.num_drawn == mixed.num_drawn + 32
    assert stats.generated_tokens == stats.num_drawn


def test_a_resolved_prompt_draws_nothing_more():
    groups, stats = collect([make_prompt(1)], ScriptedEngine(pass_rates={1: 0.5}))
    pool = groups[0].pool
    before_last_round = pool.responses[: pool.num_drawn - 4]
    positives = sum(response.is_positive for response in before_last_round)
    assert positives < 2 or len(before_last_round) - positives < 2
    assert stats.num_drawn == pool.num_drawn


def test_number_of_draws_has_the_expectation_of_the_round_based_algorithm():
    """Exact sums for k = 2/2, blocks of 4, at most 32: E[N] = 19.4 at p = .1 and 6.8 at p = .5 (reference table)."""
    for pass_rate, expected in ((0.1, 19.4), (0.5, 6.8)):
        engine = ScriptedEngine(pass_rates={1: pass_rate}, num_polls=slow_positives)
        groups, _ = collect([make_prompt(1)] * 1000, engine)
        draws = [group.pool.num_drawn for group in groups]
        mean = sum(draws) / len(draws)
        spread = math.sqrt(sum((n - mean) ** 2 for n in draws) / len(draws) / len(draws))
        assert abs(mean - expected) < 4 * spread + 0.05  # four standard errors, and the table's rounding


def test_a_prompt_twice_in_a_step_gets_different_responses():
    engine = ScriptedEngine(pass_rates={1: 0.5})
    groups, _ = collect([make_prompt(1)] * 2, engine, sampler=UniformSampler(group_size=32), selection=AllSelection())
    first, second = ([r.is_positive for r in group.pool.responses] for group in groups)
    assert first != second


def test_a_prompt_without_room_is_skipped_counted_and_warned_about():
    engine = ScriptedEngine(pass_rates={1: 0.5, 2: 0.5}, max_model_tokens=8)
    with pytest.warns(RuntimeWarning, match="has 5 tokens, the engine has room for 4: skipped"):
        groups, stats = collect([make_prompt(1, num_tokens=5), make_prompt(2)], engine)
    assert [group.pool.prompt.prompt_id for group in groups] == ["p2"]
    assert (stats.num_skipped_prompts, stats.num_prompts) == (1, 1)


def failing_grader(reward=None):
    return InstantGrader(lambda text: Grade(reward, "ZeroDivisionError") if text == "1" else Grade(0.0))


def test_failed_grades_are_no_evidence_and_drawn_anew_up_to_a_limit():
    groups, stats = collect([make_prompt(1)], ScriptedEngine(pass_rates={1: 0.5}), grader=failing_grader())
    pool = groups[0].pool
    assert pool.num_drawn - pool.num_failed == pool.num_sampled == 32
    assert pool.num_failed == stats.num_failed == stats.failures["ZeroDivisionError"] > 0
    assert stats.num_failed_excluded == stats.num_failed
    assert pool.num_positive == 0


def test_failures_of_a_response_s_own_making_are_zeros_and_counted():
    groups, stats = collect([make_prompt(1)], ScriptedEngine(pass_rates={1: 0.5}), grader=failing_grader(0.0))
    pool = groups[0].pool
    assert (pool.num_drawn, pool.num_sampled, pool.num_positive, pool.num_failed) == (32, 32, 0, 0)
    assert stats.num_failed == stats.failures["ZeroDivisionError"] > 0
    assert stats.num_failed_excluded == 0


def test_failed_grades_can_count_as_zero():
    groups, _ = collect(
        [make_prompt(1)], ScriptedEngine(pass_rates={1: 0.5}), grader=failing_grader(), grader_failure="as_zero"
    )
    assert groups[0].pool.num_sampled == 32
    assert groups[0].pool.num_failed == 0


class TruncatingEngine(ScriptedEngine):
    """Every positive response is cut by the length limit."""

    def poll(self):
        return [
            Generation(g.request_id, g.response_ids, g.sampling_logprobs, is_truncated=g.response_ids[0] == 1)
            for g in super().poll()
        ]


@pytest.mark.parametrize(
    ("truncated", "num_positive_expected", "excluded_expected"), [("grade", True, False), ("zero", False, False)]
)
def test_truncated_responses_are_graded_or_zero(truncated, num_positive_expected, excluded_expected):
    groups, stats = collect([make_prompt(1)], TruncatingEngine(pass_rates={1: 0.5}), truncated=truncated)
    pool = groups[0].pool
    assert (pool.num_positive > 0) is num_positive_expected
    assert (pool.num_truncated_excluded > 0) is excluded_expected
    assert stats.num_truncated == sum(r.is_truncated for r in pool.responses) > 0


def test_truncated_responses_can_be_excluded():
    groups, stats = collect([make_prompt(1)], TruncatingEngine(pass_rates={1: 0.5}), truncated="exclude")
    pool = groups[0].pool
    assert pool.num_truncated_excluded == stats.num_truncated > 0
    assert pool.num_sampled == 32
    assert pool.num_drawn == 32 + pool.num_truncated_excluded


class WaitedForGrader(InstantGrader):
    """Has nothing ready until somebody waits for it."""

    def poll(self):
        return []

    def wait(self, timeout_s):
        return super().poll()


@pytest.mark.parametrize(("stage", "phases"), [("train", {"outer", "grade"}), ("eval", {"outer"})])
def test_waiting_for_graders_is_learning_time_only_where_it_is_for_learning(stage, phases):
    clock = PhaseClock()
    engine = ScriptedEngine(pass_rates={1: 0.5})
    with clock.phase("outer"):
        collect([make_prompt(1)], engine, grader=WaitedForGrader(), stage=stage, clock=clock)
    assert clock.total_seconds().keys() == phases


def test_a_grader_that_always_fails_ends():
    grader = InstantGrader(lambda text: Grade(None, "OSError"))
    groups, _ = collect([make_prompt(1)], ScriptedEngine(pass_rates={1: 0.5}), grader=grader)
    assert (groups[0].pool.num_drawn, groups[0].pool.num_sampled, groups[0].kept) == (64, 0, ())


def test_masked_truncations_count_and_never_train():
    groups, _ = collect([make_prompt(1)] * 20, TruncatingEngine(pass_rates={1: 0.5}), truncated="mask")
    pools = [group.pool for group in groups]
    assert all(pool.num_positive >= 2 for pool in pools)
    assert all(not kept.response.is_truncated for group in groups for kept in group.kept)
    assert all(response.is_masked == response.is_truncated for pool in pools for response in pool.responses)


class BreakingEngine(ScriptedEngine):
    """Breaks at the third poll."""

    num_polls_left = 3

    def poll(self):
        self.num_polls_left -= 1
        if self.num_polls_left == 0:
            raise RuntimeError("worker died")
        return super().poll()


def test_a_broken_engine_is_an_engine_error_and_leaves_nothing_in_flight():
    engine = BreakingEngine(pass_rates={1: 0.0}, num_polls=lambda generator, is_positive: 2)
    grader = InstantGrader()
    with pytest.raises(EngineError, match="RuntimeError: worker died"):
        collect([make_prompt(1)], engine, grader=grader)
    assert engine.num_in_flight() == 0
    assert grader.poll() == []


def test_an_interrupt_aborts_what_is_in_flight():
    engine = ScriptedEngine(pass_rates={1: 0.5}, num_polls=lambda generator, is_positive: 100)

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect([make_prompt(1)] * 3, engine, interrupt_check=interrupt)
    assert (engine.num_in_flight(), engine.num_aborted) == (0, 12)


class NotingGrader(InstantGrader):
    """Remembers what it was given, and tells answer and components."""

    def __init__(self):
        super().__init__(lambda text: Grade(float(text == "1"), answer=text, components={"half": 0.5}, is_cached=True))
        self.completions = []

    def submit(self, ticket, prompt, completion):
        self.completions.append(completion)
        super().submit(ticket, prompt, completion)


class CutEngine(ScriptedEngine):
    """Cuts every positive."""

    def poll(self):
        return [replace(generation, is_truncated=generation.response_ids == (1,)) for generation in super().poll()]


def test_a_grader_hears_how_a_response_ended_and_what_it_tells_stays_with_the_response():
    grader = NotingGrader()
    (group,), stats = collect(
        [make_prompt(1)],
        CutEngine(pass_rates={1: 0.5}),
        grader=grader,
        sampler=UniformSampler(group_size=8),
        selection=AllSelection(),
    )
    assert set(grader.completions) == {Completion("1", "length", 1), Completion("0", "stop", 1)}
    assert {(response.answer, response.reward) for response in group.pool.responses} == {("1", 1.0), ("0", 0.0)}
    assert all(response.components == {"half": 0.5} for response in group.pool.responses)
    assert stats.num_cache_hits == stats.num_drawn == 8
