"""A pool whose members live in threads of this process, that a test can kill."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest
import torch

from ada_lightning.core.schedule import Continuous
from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.rollout.engines.engine_loop import Answer, EngineLoop, Finished, Stop
from ada_lightning.rollout.engines.engine_pool import EnginePool
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.pool_place import PoolHost
from ada_lightning.rollout.engines.published_weights import PublishedWeights, WeightDigest
from tests import builders
from tests.builders import SETTINGS
from tests.unit.rollout.faulty_engines import (
    CoinEngine,
    FaultyEngine,
    SleepyEngine,
    TellingEngine,
    hang,
    run_out_of_memory,
)

WEIGHTS = [("a", torch.arange(6.0)), ("b", torch.ones(2, 3))]


class ThreadMember:
    log_file = Path("engine.log")

    def __init__(self, open_engine):
        self.engine, self.death, self.is_closed = None, "", False
        self._commands, self._events = SimpleQueue(), SimpleQueue()

        def opened():
            self.engine = open_engine()
            return self.engine

        self._loop = EngineLoop(opened, self._commands, self._events.put)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        with contextlib.suppress(Exception):
            self._loop.run()

    def die(self):
        self.death = "killed"

    def send(self, command):
        if self.death:
            raise EngineError(self.death)
        self._commands.put(command)

    def events(self):
        if self.death:
            raise EngineError(self.death)
        found = []
        with contextlib.suppress(Empty):
            while True:
                found.append(self._events.get_nowait())
        return found

    def has_events(self):
        return bool(self.death) or not self._events.empty()

    def close(self, wait_s=0.0):
        self.is_closed = True
        self._commands.put(Stop())


class ThreadPlace:
    """Opens ``engines[index]()``, or what ``replacements`` holds for a second and later member of an index."""

    def __init__(self, *engines, replacements=()):
        self.engines, self.replacements = engines, list(replacements)
        self.opened, self.is_closed, self.publish_error = [], False, None

    def open(self, index):
        is_first = len(self.opened) < len(self.engines)
        engine = self.engines[index] if is_first or not self.replacements else self.replacements.pop(0)
        if isinstance(engine, Exception):
            raise engine
        self.opened.append(ThreadMember(engine))
        return self.opened[-1]

    def wait(self, members, timeout_s):
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and not any(member.has_events() for member in members):
            time.sleep(0.001)

    def publish(self, named_tensors, policy_version, weight_dtype):
        digest, tensors = WeightDigest(), []
        for named in digest.reading(named_tensors):
            tensors.append(named)
            if self.publish_error:
                raise self.publish_error
        return PublishedWeights(policy_version, tensors, digest.value())

    def close(self):
        self.is_closed = True


class Stuck(CoinEngine):
    """Takes requests and never finishes one."""

    def poll(self):
        time.sleep(0.001)
        return []


@pytest.fixture
def opened():
    pools = []

    def open_pool(*engines, replacements=(), **limits):
        place = ThreadPlace(*engines, replacements=replacements)
        patience = {"start_timeout_s": 10, "call_timeout_s": 10}
        pools.append(EnginePool(place, PoolHost(num_engines=len(engines), **(patience | limits))))
        return pools[-1], place

    yield open_pool
    for pool in pools:
        pool.close()


def finish(engine):
    done = []
    while engine.num_in_flight():
        done += engine.poll()
    names = [generation.request_id for generation in done]
    assert len(names) == len(set(names)), "a response came twice"
    return {generation.request_id: generation for generation in done}


def submit(engine, *indices, key=None):
    for index in indices:
        engine.submit(f"r{index}", [key or 1 + index, 0], SETTINGS, seed=index)


def run(engine, num, *, policy_version=None):
    if policy_version is not None:
        engine.load_weights(WEIGHTS, policy_version=policy_version)
    submit(engine, *range(num))
    done = finish(engine)
    assert len(done) == num
    return list(done.values())


def run_until(engine, holds):
    for _ in range(100):
        if holds():
            return
        run(engine, 6)
    raise AssertionError("it did not come to that in 600 responses")


def collect(engine):
    """A whole step with the real driver: groups and what it counted."""
    sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=16, group_size=4)
    groups, stats = builders.collect(range(1, 13), engine, sampler, seed=3, schedule=Continuous(fill_to=100))
    return groups, (stats.num_drawn, stats.generated_tokens, stats.num_truncated)


def test_the_same_step_as_with_one_engine(opened):
    pool, place = opened(CoinEngine, partial(CoinEngine, max_num_seqs=3))
    assert (pool.max_num_seqs, pool.max_model_tokens) == (11, 32)
    assert collect(pool) == collect(CoinEngine())
    pool.close()
    pool.close()
    assert place.is_closed
    assert all(member.is_closed for member in place.opened)


def test_requests_go_where_there_is_most_room_for_the_engines_size_and_wait_beyond_all_slots(opened):
    pool, _ = opened(Stuck, partial(Stuck, max_num_seqs=4))
    submit(pool, *range(6))
    assert pool.loads() == [4, 2]
    submit(pool, *range(6, 15))
    assert (pool.loads(), pool.num_in_flight()) == ([8, 4], 15)
    assert pool.abort(["r12", "r13", "r14"]) == 0  # nothing was generated for those
    assert pool.abort([f"r{index}" for index in range(12)]) == 120


def test_a_fast_engine_does_more_of_the_work(opened):
    class Counting(CoinEngine):
        num_submitted = 0

        def submit(self, *request):
            self.num_submitted += 1
            super().submit(*request)

    pool, place = opened(partial(Counting, poll_s=0.001), partial(Counting, poll_s=0.02))
    waiting = [(f"r{index}", [1 + index % 40, index], SETTINGS, index) for index in range(120)]
    num_done = 0
    while num_done < 120:
        while waiting and pool.num_in_flight() < pool.max_num_seqs:
            pool.submit(*waiting.pop())
        num_done += len(pool.poll())
    fast, slow = (member.engine.num_submitted for member in place.opened)
    assert fast + slow == 120
    assert fast > 3 * slow


@pytest.mark.parametrize(("affinity", "loads"), [(0, [4, 4]), (4, [5, 3]), (100, [8, 0])])
def test_responses_of_one_prompt_stay_together_as_far_as_the_balance_allows(opened, affinity, loads):
    pool, _ = opened(Stuck, Stuck, affinity=affinity)
    submit(pool, *range(8), key=7)
    assert sorted(pool.loads(), reverse=True) == loads


@pytest.mark.parametrize("num_returned", [0, 30])
def test_a_step_in_which_an_engine_dies_ends_the_same(opened, num_returned):
    pool, place = opened(partial(CoinEngine, poll_s=0.002), partial(CoinEngine, poll_s=0.002))
    poll, returned = pool.poll, []

    def killing_poll():
        if len(returned) >= num_returned and pool.loads()[0] and not place.opened[0].death:
            place.opened[0].die()
        returned.extend(found := poll())
        return found

    pool.poll = killing_poll
    with pytest.warns(RuntimeWarning, match=r"engine 0 broke \(killed; process \d+\) with \d+ requests in flight, whi"):
        found = collect(pool)
    assert found == collect(CoinEngine())
    assert (pool.num_restarts, place.opened[0].is_closed, len(place.opened)) == (1, True, 3)


def test_responses_that_arrived_before_their_engine_died_come_once(opened):
    pool, place = opened(TellingEngine, Stuck, affinity=0)
    pool.submit("done", [1], SETTINGS, seed=0)
    while not pool._finished:
        pool._listen(0.1)
    place.opened[0].die()
    with pytest.warns(RuntimeWarning, match="with 0 requests in flight"):
        pool._listen(0.1)
    assert set(finish(pool)) == {"done"}


def test_a_new_engine_gets_the_current_weights_before_its_first_request(opened):
    pool, place = opened(TellingEngine)
    for version in (4, 5):
        pool.load_weights(((name, tensor * version) for name, tensor in WEIGHTS), policy_version=version)
    place.opened[0].die()
    with pytest.warns(RuntimeWarning, match="it is being replaced"):
        (generation,) = run(pool, 1)  # the only engine is gone: the request waits for the new one
    assert generation.sampling_logprobs[0] == 5 * (15 + 6)


def test_a_hanging_engine_is_replaced_and_a_slow_one_is_not(opened):
    pool, _ = opened(
        partial(FaultyEngine, hang), partial(CoinEngine, poll_s=0.5), replacements=[CoinEngine], call_timeout_s=2.5
    )
    submit(pool, *range(4))
    with pytest.warns(RuntimeWarning, match="engine 0 broke .it made no progress for 3 s and was killed;") as warned:
        done = finish(pool)
    assert (len(done), len(warned)) == (4, 1)


def test_an_engine_that_keeps_breaking_is_left_out(opened):
    pool, _ = opened(partial(FaultyEngine, run_out_of_memory), CoinEngine, max_restarts=1)
    with pytest.warns(RuntimeWarning, match="no block left") as warned:
        run_until(pool, lambda: len(warned) == 2)
    assert "it is being replaced" in str(warned[0].message)
    assert "it is left out, 1 are left" in str(warned[1].message)
    assert (pool.max_num_seqs, pool.num_restarts) == (8, 1)


def test_a_pool_without_an_engine_left_is_an_error(opened):
    pool, place = opened(Stuck, Stuck, max_restarts=0)
    submit(pool, *range(4))
    for member in place.opened:
        member.die()
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(EngineError, match=r"no engine of the pool is left: .*max_restarts; the last one: killed"),
    ):
        finish(pool)
    with pytest.raises(EngineError, match="no engine of the pool is left"):
        submit(pool, 0)


def test_losses_before_a_sync_do_not_count_after_it(opened):
    pool, place = opened(CoinEngine, max_restarts=1)
    for version in range(3):
        place.opened[-1].die()
        with pytest.warns(RuntimeWarning, match="it is being replaced"):
            run(pool, 2)
        pool.load_weights(WEIGHTS, policy_version=version)
    assert pool.num_restarts == 3


def test_a_replacement_that_cannot_start_leaves_the_others_at_work(opened):
    pool, place = opened(CoinEngine, CoinEngine, replacements=[EngineError("no resources")])
    submit(pool, *range(6))
    place.opened[1].die()
    with pytest.warns(RuntimeWarning, match=r"no resources.*left out, 1 are left"):
        assert len(finish(pool)) == 6


def test_a_pool_whose_engine_does_not_start_says_so_and_leaves_nothing():
    place = ThreadPlace(CoinEngine, partial(CoinEngine, nonsense=1))
    with pytest.raises(EngineError, match="engine 1 did not start: TypeError"):
        EnginePool(place, PoolHost(num_engines=2, start_timeout_s=10))
    assert place.is_closed
    assert all(member.is_closed for member in place.opened)


def test_aborted_requests_return_their_tokens_wherever_they_are(opened):
    pool, place = opened(Stuck, TellingEngine, affinity=0)
    submit(pool, *range(4))
    while len(pool._finished) < 2:
        pool._listen(0.1)
    assert pool.abort([f"r{index}" for index in range(4)]) == 2 * 10 + 2 * 6  # running, and finished but not polled
    assert (pool.num_in_flight(), pool.loads()) == (0, [0, 0])
    submit(pool, 0)  # dropped, and wanted after all
    assert pool.loads() == [1, 0]
    assert place.opened[0].engine.num_in_flight() <= 1


def test_requests_aborted_while_their_engine_dies_are_not_drawn_again(opened):
    pool, place = opened(Stuck, Stuck, affinity=0)
    submit(pool, *range(4))
    place.opened[0].die()
    with pytest.warns(RuntimeWarning, match="with 1 requests in flight"):
        assert pool.abort(["r0", "r1", "r3"]) == 20  # r0 and r2 were on the dead one
    assert pool.num_in_flight() == 1
    pool._listen(0.1)
    assert sum(pool.loads()) == 1
    assert pool.abort(["r2"]) == 10


def test_a_failing_publication_reads_every_tensor_to_its_end(opened):
    pool, place = opened(CoinEngine)
    place.publish_error = EngineError("store is full")
    seen = []
    named = ((seen.append(name), (name, tensor))[1] for name, tensor in WEIGHTS)
    with pytest.raises(EngineError, match="store is full"):
        pool.load_weights(named, policy_version=0)
    assert seen == ["a", "b"]


def test_what_does_not_go_is_refused_here(opened):
    pool, place = opened(partial(SleepyEngine, poll_s=0.1))
    with pytest.raises(ValueError, match=r"30 tokens and a response of 4 need 34 tokens; the engine has room for 32"):
        pool.submit("long", [1] * 30, SETTINGS, seed=0)
    assert pool.num_in_flight() == 0
    submit(pool, 1)
    with pytest.raises(RuntimeError, match="load_weights with 1 requests in flight"):
        pool.load_weights(WEIGHTS, policy_version=0)
    with pytest.raises(RuntimeError, match="sleep with 1 requests in flight"):
        pool.sleep()
    assert place.opened[0].engine.num_sleeps == 0


def other_weights(event):
    return replace(event, result=replace(event.result, num_bytes=1)) if isinstance(event, Answer) else event


def older_weights(event):
    return replace(event, policy_version=1) if isinstance(event, Finished) else event


@pytest.mark.parametrize(
    ("forge", "message"),
    [(other_weights, "other weights than were sent"), (older_weights, "sampled from policy version 1 instead of 2")],
)
def test_an_engine_with_other_weights_is_replaced(opened, forge, message):
    pool, place = opened(CoinEngine)
    events = place.opened[0].events
    place.opened[0].events = lambda: [forge(event) for event in events()]
    with pytest.warns(RuntimeWarning, match=message):
        run(pool, 3, policy_version=2)
    assert place.opened[1].engine.policy_version == 2


@pytest.mark.filterwarnings("ignore:engine . broke")
def test_random_faults_never_change_a_step(opened):
    """Engines die at random moments, several times, and the pools stay what they are."""
    expected, num_restarts = collect(CoinEngine()), 0
    for seed in range(5):
        generator = random.Random(seed)
        engines = [partial(CoinEngine, poll_s=0.001 * generator.randrange(4), max_num_seqs=6) for _ in range(3)]
        pool, place = opened(*engines, max_restarts=100)
        poll = pool.poll

        def faulty_poll(poll=poll, place=place, generator=generator):
            if generator.random() < 0.5 and len(place.opened) < 10:
                generator.choice(place.opened[-3:]).die()
            return poll()

        pool.poll = faulty_poll
        assert collect(pool) == expected
        num_restarts += pool.num_restarts
        pool.close()
    assert num_restarts > 10


@pytest.mark.parametrize(("levels", "keeps"), [((1, 1), True), ((1, 2), False)])
def test_every_engine_sleeps(opened, levels, keeps):
    pool, place = opened(*(partial(SleepyEngine, sleep_level=level) for level in levels))
    assert pool.sleep() is keeps
    assert [member.engine.num_sleeps for member in place.opened] == [1, 1]
    assert len(run(pool, 4)) == 4
    mixed, place = opened(SleepyEngine, CoinEngine)
    assert mixed.sleep() is True
    assert place.opened[0].engine.num_sleeps == 0


def test_an_engine_that_dies_in_its_sleep_is_replaced(opened):
    pool, place = opened(SleepyEngine, SleepyEngine)
    send = place.opened[1].send
    place.opened[1].send = lambda command: place.opened[1].die() or send(command)
    with pytest.warns(RuntimeWarning, match="engine 1 broke"):
        assert pool.sleep() is True
