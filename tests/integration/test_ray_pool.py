"""Engines as Ray actors: a Ray started here, without models first, then with the real engine."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from ada_lightning.rollout.engines.ray_pool import RayPool
from tests.builders import SETTINGS
from tests.integration.conftest import column
from tests.unit.rollout.faulty_engines import CoinEngine, TellingEngine, completed
from tests.unit.rollout.test_engine_pool import collect, finish

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def ray_here():
    """One Ray for the module: starting it takes seconds. Pools then leave it running."""
    ray = pytest.importorskip("ray")
    handler = signal.getsignal(signal.SIGTERM)
    RayPool(num_engines=2)._start_ray()
    assert signal.getsignal(signal.SIGTERM) is handler
    yield ray
    ray.shutdown()


@pytest.fixture
def opened(ray_here, tmp_path):
    pools = []

    def open_pool(engine, **options):
        pools.append(RayPool(start_timeout_s=300, call_timeout_s=300, **options).open(engine, tmp_path / "engine.log"))
        return pools[-1]

    yield open_pool
    for pool in pools:
        pool.close()
    assert ray_here.is_initialized()


def processes(pool):
    """Process of each engine, as it tells itself."""
    for index in range(pool.max_num_seqs):
        pool.submit(f"r{index}", [1], SETTINGS, seed=index)
    return {generation.response_ids[0]: generation for generation in finish(pool).values()}


def test_the_same_step_with_actors_one_of_which_is_killed(opened):
    pool = opened(completed(CoinEngine, poll_s=0.01))
    assert collect(pool) == collect(CoinEngine())
    killed = []
    poll = pool.poll

    def killing_poll():
        if pool.loads()[0] and not killed:
            killed.append(pool.pids()[0])
            os.kill(killed[0], signal.SIGKILL)
        return poll()

    pool.poll = killing_poll
    with pytest.warns(RuntimeWarning, match=r"engine 0 on \S+ \(.*\) broke \(.*Died.*it is being replaced"):
        assert collect(pool) == collect(CoinEngine())
    assert pool.num_restarts == 1


def wait_for_replacement(pool):
    while pool.num_restarts == 0 or not all(seat.is_ready for seat in pool._seats):
        pool._listen(0.5)


def test_weights_are_put_once_and_reach_every_actor_and_a_new_one(opened, ray_here):
    pool = opened(completed(TellingEngine, weight_dtype="bfloat16"), affinity=0, chunk_mib=0.001)
    weights = [("a", torch.arange(300.0)), ("ids", torch.arange(4)), ("b", torch.ones(30, 20)), ("none", torch.ones(0))]
    pool.load_weights(iter(weights), policy_version=7)
    total = float(torch.arange(300.0).bfloat16().double().sum()) + 6 + 600
    found = processes(pool)
    assert len(found) == 2
    assert {generation.sampling_logprobs[0] for generation in found.values()} == {total}
    assert {generation.response_ids[-1] for generation in found.values()} == {2 + 8 + 2 + 2}
    first = next(iter(found))
    os.kill(first, signal.SIGKILL)
    with pytest.warns(RuntimeWarning, match="it is being replaced"):
        wait_for_replacement(pool)
    again = processes(pool)
    assert len(again) == 2
    assert first not in again
    assert {generation.sampling_logprobs[0] for generation in again.values()} == {total}


def test_actors_have_their_threads_and_nothing_of_the_trainers_rank(opened, monkeypatch):
    pool = opened(completed(TellingEngine), num_engines=1, num_cpus=2, environment={"GIVEN": 5})
    (facts,) = {generation.response_ids for generation in processes(pool).values()}
    assert facts[2:5] == (0, 2, 5)
    assert facts[0] != os.getpid()


@pytest.mark.long
def test_a_run_with_an_actor_gives_the_same_responses(train, ray_here):
    """In the Ray of the module: two that start at once on one machine may hear of each other, and are refused."""
    inside = train(name="inside", vllm=True)
    outside = train("rollout=ray", "rollout.host.num_engines=1", name="outside", vllm=True)
    for name in ("rollout/num_sampled", "rollout/reward_first_round"):
        assert column(outside, name) == column(inside, name), name
    assert max(column(outside, "sync/logprob_gap")) < 1e-3
