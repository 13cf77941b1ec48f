"""The simulated engine against times computed by hand, and jumps against single steps."""

from __future__ import annotations

import random

import pytest

from ada_lightning.core.records import Prompt, SamplingSettings
from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.methods.selection import BalancedSelection
from research.benchmarks.simulation.engine import SimulatedEngine
from research.benchmarks.simulation.replica import Fate, Fates, StepTime
from research.scripted import ScriptedGrader
from tests.builders import Collector

SETTINGS = SamplingSettings(max_new_tokens=100)
# base(n) = 1 + n seconds; 0.25 s per context token; 0.5 s per computed prompt token; 2 s per admission
STEP_TIME = StepTime((1, 100), (2.0, 101.0), context_s=0.25, prompt_token_s=0.5, admission_s=2.0)


class Lengths:
    """Every request's length is its seed."""

    def draw(self, prompt_ids, max_new_tokens, seed):
        return Fate(seed, is_positive=True, is_truncated=False)


def drain(engine):
    """(virtual second, request, tokens) of every completion."""
    done = []
    while engine.num_in_flight():
        done += [(engine.now, generation.request_id, len(generation.response_ids)) for generation in engine.poll()]
    return done


def open_engine(fates=None, **options):
    return SimulatedEngine(fates or Lengths(), STEP_TIME, **{"slots": 2, "block_size": 4, **options})


@pytest.mark.parametrize("jump", [True, False])
def test_three_requests_by_hand(jump):
    engine = open_engine(jump=jump)
    for name, prompt, length in (("a", (1,) * 6, 3), ("b", (1,) * 6, 1), ("c", (2,) * 2, 2)):
        engine.submit(name, prompt, SETTINGS, length)
    # Step 1 admits a (6 tokens) and b (2: its first block of 4 is cached): base 3, context 12, tokens 8, admissions 2.
    first = 3 + 12 * 0.25 + 8 * 0.5 + 2 * 2
    # Step 2 admits c (2 tokens) beside a with 7 tokens.
    second = 3 + 9 * 0.25 + 2 * 0.5 + 2
    # Step 3: a with 8 tokens, c with 3.
    third = 3 + 11 * 0.25
    expected = [(first, "b", 1), (first + second + third, "a", 3), (first + second + third, "c", 2)]
    assert drain(engine) == expected  # every term is a binary fraction, so equality is exact


def test_every_request_gets_exactly_its_tokens():
    generator = random.Random(0)
    engine = open_engine(num_replicas=3)
    lengths = {str(index): generator.randint(1, 20) for index in range(60)}
    for name, length in lengths.items():
        engine.submit(name, (length % 3, 7), SETTINGS, length)
    assert {name: num_tokens for _, name, num_tokens in drain(engine)} == lengths
    running = sum(span.num_running * (span.end_s - span.start_s) for span in engine.spans())
    assert max(span.num_running for span in engine.spans()) == 2
    assert 0 < running <= 6 * engine.now


def test_token_budget_of_a_step_holds_whole_prompts():
    engine = open_engine(max_batched_tokens=9)
    engine.submit("a", (1,) * 8, SETTINGS, 2)
    engine.submit("b", (2,) * 8, SETTINGS, 2)  # 1 running + 8 = 9 fits the second step, not the first
    assert [span.num_running for span in (drain(engine), engine.spans())[1]] == [1, 2, 1]


def test_abort_counts_the_tokens_so_far():
    engine = open_engine()
    engine.submit("short", (1,), SETTINGS, 3)
    engine.submit("long", (2,), SETTINGS, 10)
    engine.submit("queued", (3,), SETTINGS, 5)
    assert [generation.request_id for generation in engine.poll()] == ["short"]
    assert engine.abort(["queued"]) == 0
    assert engine.abort(["long", "unknown"]) == 3
    assert engine.num_in_flight() == 0
    assert engine.poll() == []


def test_abort_on_another_replica_finishes_the_step_under_way():
    engine = open_engine(num_replicas=2)
    engine.submit("a", (1,), SETTINGS, 1)  # 2 + 0.25 + 0.5 + 2 = 4.75 s
    engine.submit("b", (1,) * 4, SETTINGS, 10)  # first step 2 + 1 + 2 + 2 = 7 s, under way when a finishes
    engine.poll()
    assert engine.now == pytest.approx(4.75)
    assert engine.abort(["b"]) == 1


def test_a_request_waits_for_the_next_step_of_a_replica():
    engine = open_engine(num_replicas=2)
    engine.submit("a", (1,), SETTINGS, 1)
    engine.submit("b", (1,) * 4, SETTINGS, 2)
    engine.poll()  # at 4.75 s; b's first step ends at 7 s
    engine.submit("c", (1,), SETTINGS, 9)  # to the idle replica
    engine.submit("d", (1,), SETTINGS, 9)  # tie: the first replica
    assert engine.poll()[0].request_id == "b"
    assert engine.now == pytest.approx(7 + 2 + 5 * 0.25)


def test_reentry_is_paid_when_work_arrives_at_an_engine_that_ran_dry():
    engine = open_engine(reentry_s=100.0)
    engine.submit("a", (1,) * 5, SETTINGS, 1)
    engine.submit("b", (1,) * 5, SETTINGS, 1)
    drain(engine)
    before = engine.now
    engine.submit("c", (1,) * 5, SETTINGS, 1)
    drain(engine)
    assert engine.now - before == pytest.approx(100 + 2 + 5 * 0.25 + 5 * 0.5 + 2)  # the prefix is computed anew
    assert engine.num_reentries == 1


def collect(*, jump, num_replicas):
    rates = {key: key / 12 for key in range(12)}
    engine = SimulatedEngine(
        Fates(rates, median_tokens=20, sigma=0.6, wrong_length_ratio=1.5),
        STEP_TIME,
        num_replicas=num_replicas,
        slots=10,
        jump=jump,
    )
    groups, stats = Collector(decode=lambda ids: str(ids[0]), seed=3).collect(
        [Prompt(f"p{key}", (), prompt_ids=(key,) * (3 + key)) for key in rates],
        engine=engine,
        grader=ScriptedGrader(),
        sampler=BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=16, group_size=4),
        selection=BalancedSelection(group_size=4),
        settings=SETTINGS,
        stage="train",
        step=0,
        policy_version=0,
    )
    pools = [[(len(r.response_ids), r.is_positive) for r in group.pool.responses] for group in groups]
    return engine, pools, stats


@pytest.mark.parametrize("num_replicas", [1, 3])
def test_jumping_equals_stepping(num_replicas):
    jumping, pools, stats = collect(jump=True, num_replicas=num_replicas)
    stepping, same_pools, same_stats = collect(jump=False, num_replicas=num_replicas)
    assert pools == same_pools
    assert stats.generated_tokens == same_stats.generated_tokens
    assert jumping.now == pytest.approx(stepping.now, rel=1e-9)
    assert len(jumping.spans()) < len(stepping.spans())


def test_a_prefix_stays_cached_between_steps():
    engine = open_engine()
    for name in ("a", "b"):
        before = engine.now
        engine.submit(name, (1,) * 6, SETTINGS, 1)
        drain(engine)
    assert engine.now - before == 2 + 6 * 0.25 + 2 * 0.5 + 2  # two of six prompt tokens are beyond the full block


def test_an_aborted_request_may_come_again_under_its_name():
    engine = open_engine()
    engine.submit("a", (1,), SETTINGS, 5)
    engine.submit("b", (2,), SETTINGS, 2)
    assert [generation.request_id for generation in engine.poll()] == ["b"]
    assert engine.abort(["a"]) == 2
    engine.submit("a", (1,), SETTINGS, 7)
    before = engine.now
    assert [name for _, name, _ in drain(engine)] == ["a"]
    assert engine.now - before == 7 * 2 + sum(range(1, 8)) * 0.25 + 1 * 0.5 + 2
