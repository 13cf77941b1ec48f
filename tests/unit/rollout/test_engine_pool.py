"""A pool of several engines: who gets what, and what becomes of it when one of them dies."""

from __future__ import annotations

import random
import time
import warnings
from dataclasses import replace
from functools import partial

import pytest
import torch

from ada_lightning.core.schedule import Continuous
from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.rollout.engines import request_queue
from ada_lightning.rollout.engines.engine_loop import Answer, Finished
from ada_lightning.rollout.engines.engine_pool import EnginePool
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.pool_place import PoolHost
from tests import builders
from tests.builders import SETTINGS
from tests.unit.rollout.faulty_engines import (
    CoinEngine,
    FaultyEngine,
    SideBySideEngine,
    SleepyEngine,
    TellingEngine,
    hang,
    run_out_of_memory,
)
from tests.unit.rollout.thread_pool import ThreadPlace

WEIGHTS = [("a", torch.arange(6.0)), ("b", torch.ones(2, 3))]


class Stuck(CoinEngine):
    """Takes requests and never finishes one."""

    def poll(self):
        time.sleep(0.001)
        return []


@pytest.fixture
def opened():
    pools = []

    def open_pool(*engines, replacements=(), hosts=(), **limits):
        place = ThreadPlace(*engines, replacements=replacements, hosts=hosts)
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
    with pytest.warns(
        RuntimeWarning, match=r"engine 0 broke \(killed; process \d+\) with \d+ unfinished requests, whi"
    ):
        found = collect(pool)
    assert found == collect(CoinEngine())
    assert (pool.num_restarts, place.opened[0].is_closed, len(place.opened)) == (1, True, 3)


def test_responses_that_arrived_before_their_engine_died_come_once(opened):
    pool, place = opened(TellingEngine, Stuck, affinity=0)
    pool.submit("done", [1], SETTINGS, seed=0)
    while not pool._finished:
        pool._listen(0.1)
    place.opened[0].die()
    with pytest.warns(RuntimeWarning, match="with 0 unfinished requests"):
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


@pytest.mark.parametrize("sync", ["load_weights", "publish"])
def test_an_engine_that_was_left_out_serves_again_after_the_next_sync_if_it_can(opened, sync):
    """As one whose host was away; one that cannot start yet has its next turn with the next version."""
    away = [EngineError("host c is away")] * 2
    pool, place = opened(CoinEngine, CoinEngine, replacements=[*away, CoinEngine], max_restarts=0)
    pool.load_weights(WEIGHTS, policy_version=0)
    place.opened[1].die()
    with pytest.warns(RuntimeWarning, match="left out, 1 are left"):
        run(pool, 6)
    for version, number in ((1, 1), (2, 1), (3, 2)):
        getattr(pool, sync)(WEIGHTS, policy_version=version)
        if sync == "publish":
            pool.keep({version})
        while not all(seat.is_open for seat in pool._seats):
            pool._listen(0.1)
        run(pool, 6)
        assert len(pool.loads()) == number
    assert pool.max_num_seqs == 16


def test_an_engine_that_is_called_back_and_breaks_again_is_left_out_at_once(opened):
    broken = partial(FaultyEngine, run_out_of_memory)
    pool, place = opened(CoinEngine, CoinEngine, replacements=[broken, broken], max_restarts=0)
    place.opened[1].die()
    with pytest.warns(RuntimeWarning, match="left out"):
        run(pool, 6)
    pool.load_weights(WEIGHTS, policy_version=1)
    with pytest.warns(RuntimeWarning, match="no block left.*left out, 1 are left"):
        run_until(pool, lambda: len(pool._seats) == 1)


def test_what_goes_wrong_is_said_with_the_host(opened):
    pool, place = opened(CoinEngine, CoinEngine, hosts=("", "c (10.0.0.3)"))
    place.opened[1].die()
    with pytest.warns(RuntimeWarning, match=r"engine 1 on c \(10.0.0.3\) broke \(killed; process"):
        run(pool, 6)
    place = ThreadPlace(partial(CoinEngine, nonsense=1), hosts=("c (10.0.0.3)",))
    with pytest.raises(EngineError, match=r"engine 0 on c \(10.0.0.3\) did not start: TypeError"):
        EnginePool(place, PoolHost(start_timeout_s=10))


def test_a_host_that_is_not_heard_of_is_named_once_and_once_more_when_it_answers(opened, monkeypatch):
    monkeypatch.setattr(request_queue, "_QUIET_S", 0.2)
    pool, place = opened(CoinEngine, partial(CoinEngine, poll_s=0.001), hosts=("", "c (10.0.0.3)"))
    submit(pool, *range(6))
    silent, told = place.opened[1], []
    events = silent.events
    silent.events = lambda: told.extend(events()) or []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        while not warned:
            pool._listen(0.05)
        for _ in range(10):
            pool._listen(0.05)
        silent.events = lambda: told + events()
        assert len(finish(pool)) == 6
    first, second = map(str, (each.message for each in warned))
    assert first.startswith(
        "engine 1 on c (10.0.0.3) has said nothing for 0 s; after 10 s (rollout.host.call_timeout_s"
    )
    assert second.startswith("engine 1 on c (10.0.0.3) answers again, after ")


def test_a_pool_without_an_engine_left_is_an_error(opened):
    pool, place = opened(Stuck, Stuck, max_restarts=0)
    submit(pool, *range(4))
    for member in place.opened:
        member.die()
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(EngineError, match=r"is left: each broke .*max_restarts = 0; the last one: killed"),
    ):
        finish(pool)
    with pytest.raises(EngineError, match="no engine of the pool is left: each broke"):
        submit(pool, 0)


def test_a_pool_that_was_closed_says_so(opened):
    pool, _ = opened(Stuck)
    pool.close()
    with pytest.raises(EngineError, match="no engine of the pool is left: it was closed"):
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
    with pytest.warns(RuntimeWarning, match="with 1 unfinished requests"):
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


def at_version(version):
    return ((name, tensor * version) for name, tensor in WEIGHTS)


def versions_seen(done):
    """What each response was drawn with, by the sum of its engine's weights."""
    return {name: generation.sampling_logprobs[0] / 21 for name, generation in done.items()}


def test_each_response_is_drawn_with_its_own_version_while_several_are_asked_for(opened):
    pool, _ = opened(*[partial(TellingEngine, max_num_seqs=2)] * 3, affinity=0)
    pool.load_weights(at_version(1), policy_version=1)
    wanted, done = {f"r{number}": 1 + number // 15 for number in range(60)}, {}
    for seed, (name, version) in enumerate(wanted.items()):
        if version not in pool.versions:
            pool.publish(at_version(version), policy_version=version)
        pool.submit(name, [1], SETTINGS, seed=seed, policy_version=version)
    assert set(pool.versions) == {1, 2, 3, 4}
    assert pool.num_in_flight() == 60
    for version in (1, 2, 3, 4):
        while not all(name in done for name in wanted if wanted[name] == version):
            done |= {generation.request_id: generation for generation in pool.poll()}
        pool.keep({newer for newer in pool.versions if newer > version} or {version})
    assert versions_seen(done) == wanted


def test_where_one_version_cannot_be_given_up_none_is(opened):
    pool, _ = opened(Stuck, Stuck)
    pool.load_weights(WEIGHTS, policy_version=1)
    for version in (2, 3, 4):
        pool.publish(WEIGHTS, policy_version=version)
    pool.submit("r", [1], SETTINGS, seed=0, policy_version=3)
    with pytest.raises(RuntimeError, match="policy version 3 is dropped while 1 of its requests are unfinished"):
        pool.keep([4])
    assert sorted(pool.versions) == [1, 2, 3, 4]
    pool.abort(["r"])
    pool.keep([4])
    assert list(pool.versions) == [4]


def test_a_version_that_is_not_there_is_refused_and_one_in_flight_is_not_given_up(opened):
    pool, _ = opened(Stuck, Stuck)
    pool.load_weights(WEIGHTS, policy_version=1)
    with pytest.raises(ValueError, match=r"has policy versions \[1\], not 2; publish it first"):
        pool.submit("r", [1], SETTINGS, seed=0, policy_version=2)
    pool.publish(WEIGHTS, policy_version=2)
    pool.submit("r", [1], SETTINGS, seed=0, policy_version=1)
    with pytest.raises(RuntimeError, match="policy version 1 is dropped while 1 of its requests are unfinished"):
        pool.keep([2])
    pool.abort(["r"])
    pool.keep([2])
    assert list(pool.versions) == [2]


def test_one_engine_alone_does_not_serve_several_versions(opened):
    assert not opened(CoinEngine)[0].serves_versions
    assert opened(CoinEngine, CoinEngine)[0].serves_versions


def test_a_new_engine_gets_the_version_that_lacks_one(opened):
    """Both versions have an engine; the one of the older dies, and its successor is given the older again."""
    pool, _ = opened(*[partial(TellingEngine, poll_s=0.002)] * 2, affinity=0)
    pool.load_weights(at_version(1), policy_version=1)
    pool.publish(at_version(2), policy_version=2)
    for number in range(40):
        pool.submit(f"r{number}", [1], SETTINGS, seed=number, policy_version=1 + number % 2)
    deaths = 0
    done = {}
    while pool.num_in_flight():
        old = [seat for seat in pool._seats if seat.version == 1 and seat.in_flight]
        if old and len(pool._seats) == 2 and not deaths and {seat.version for seat in pool._seats} == {1, 2}:
            deaths += 1
            old[0].member.die()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done |= {generation.request_id: generation for generation in pool.poll()}
    assert deaths == 1
    assert versions_seen(done) == {f"r{number}": 1 + number % 2 for number in range(40)}


@pytest.mark.parametrize("num_engines", [1, 2])
def test_engines_that_hold_versions_sample_from_all_of_them_at_once(opened, num_engines):
    pool, place = opened(*[partial(SideBySideEngine, max_num_seqs=6, poll_s=0.001)] * num_engines, affinity=0)
    assert pool.serves_versions
    pool.load_weights(at_version(1), policy_version=1)
    wanted, done = {f"r{number}": 1 + number // 10 for number in range(40)}, {}
    for seed, (name, version) in enumerate(wanted.items()):
        if version not in pool.versions:
            while not all(each in done for each in wanted if wanted[each] < version - 1):
                done |= {generation.request_id: generation for generation in pool.poll()}
            pool.keep({version - 1})  # before the next: two have room
            pool.publish(at_version(version), policy_version=version)
        pool.submit(name, [1], SETTINGS, seed=seed, policy_version=version)
    done |= finish(pool)
    assert versions_seen(done) == wanted
    assert [member.engine.most_at_once for member in place.opened] == [2] * num_engines
    pool.load_weights(at_version(7), policy_version=7)
    pool.submit("alone", [1], SETTINGS, seed=0)
    assert versions_seen(finish(pool)) == {"alone": 7}
    assert [list(member.engine.versions) for member in place.opened] == [[7]] * num_engines


def test_a_new_engine_is_handed_every_version(opened):
    pool, place = opened(partial(SideBySideEngine, poll_s=0.002))
    pool.load_weights(at_version(1), policy_version=1)
    pool.publish(at_version(2), policy_version=2)
    for number in range(20):
        pool.submit(f"r{number}", [1], SETTINGS, seed=number, policy_version=1 + number % 2)
    place.opened[0].die()
    with pytest.warns(RuntimeWarning, match="engine 0 broke .* it is being replaced"):
        done = finish(pool)
    assert versions_seen(done) == {f"r{number}": 1 + number % 2 for number in range(20)}
    assert set(place.opened[1].engine.versions) == {1, 2}


class Guessing(CoinEngine):
    """Answers with the draft that it was given."""

    takes_drafts = True

    def submit(self, request_id, prompt_ids, settings, seed, draft=()):
        super().submit(request_id, prompt_ids, settings, seed)
        at, outcome = self._running[request_id]
        self._running[request_id] = at, replace(outcome, response_ids=draft)


def test_drafts_reach_engines_that_take_them(opened):
    pool, _ = opened(Guessing, Guessing)
    assert pool.takes_drafts
    for index in range(4):
        pool.submit(f"r{index}", [1], SETTINGS, seed=index, draft=[index] * index)
    done = finish(pool)
    assert [done[f"r{index}"].response_ids for index in range(4)] == [(), (1,), (2, 2), (3, 3, 3)]
    mixed, _ = opened(Guessing, CoinEngine)
    assert not mixed.takes_drafts
