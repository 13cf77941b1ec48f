"""Who serves which version, on pools of any size with requests that take any time."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ada_lightning.rollout.engines.request_queue import Load, assignment, shares


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 300), min_size=1, max_size=4), st.integers(1, 16))
def test_every_engine_is_for_some_version_and_the_oldest_has_one(num_open, num_engines):
    found = shares(num_open, num_engines)
    assert sum(found.values()) == num_engines
    assert min(found.values()) >= 0
    assert found.keys() == num_open.keys()
    assert found[min(num_open)] or not any(num_open.values())
    younger = sorted((num_open[version], found[version]) for version in num_open if version != min(num_open))
    assert all(more >= fewer - 1 for (_, fewer), (_, more) in pairwise(younger))


class Pool:
    """Engines that each finish a random one of their requests now and then; versions come and are given up."""

    def __init__(self, number, num_engines, num_slots):
        self.clock = random.Random(number)
        self.num_slots = num_slots
        self.version, self.running = [-1] * num_engines, [0] * num_engines
        self.waiting, self.blocks, self.num_switches = Counter(), Counter(), 0

    @property
    def num_open(self):
        return {version: self.waiting[version] + self.in_flight(version) for version in sorted(self.blocks)}

    def in_flight(self, version):
        return sum(n for n, has in zip(self.running, self.version, strict=True) if has == version)

    def dispatch(self):
        while True:
            loads = {
                engine: Load(version, self.running[engine], self.num_slots)
                for engine, version in enumerate(self.version)
            }
            waiting = [version for version, number in self.waiting.items() if number]
            if not waiting:
                return
            found = assignment(loads, self.num_open, waiting)
            for engine, version in found.switches:
                assert self.running[engine] == 0
                assert self.version[engine] != version
                self.version[engine], self.num_switches = version, self.num_switches + 1
            given = False
            for version, room in found.room.items():
                for engine, most in room:
                    assert self.version[engine] == version
                    assert most <= self.num_slots
                    if self.waiting[version] and self.running[engine] < most:
                        self.running[engine] += 1
                        self.waiting[version] -= 1
                        given = True
                        break
            if not given and not found.switches:
                return

    def advance(self):
        """Finish a response, which may lead to another of its version; a version ends with its last response."""
        busy = [engine for engine, number in enumerate(self.running) if number]
        assert busy, "requests wait, and no engine takes them"
        engine = self.clock.choice(busy)
        version = self.version[engine]
        self.running[engine] -= 1
        if self.blocks[version] and self.clock.random() < 0.7:
            self.blocks[version] -= 1
            self.waiting[version] += 1
        if not self.num_open[version]:
            if self.blocks[version]:  # what graders have asked for meanwhile
                self.blocks[version] -= 1
                self.waiting[version] += 1
            else:
                del self.blocks[version]


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8), st.integers(1, 3))
def test_every_request_comes_to_an_engine_of_its_version(number, num_engines, num_slots, num_versions):
    pool = Pool(number, num_engines, num_slots)
    for version in range(num_versions):
        pool.blocks[version] = pool.clock.randrange(30)
        pool.waiting[version] = 1 + pool.clock.randrange(30)
    for turn in range(2000):
        pool.dispatch()
        if not pool.blocks:
            break
        pool.advance()
        if turn < 200 and pool.blocks and len(pool.blocks) < 3 and pool.clock.random() < 0.05:
            new = max(pool.blocks) + 1
            pool.blocks[new], pool.waiting[new] = pool.clock.randrange(10), 5
    assert not pool.blocks
    assert not any(pool.running)


def test_the_first_engine_that_switches_is_not_handed_everything():
    loads = {0: Load(1, 0, 128), 1: Load(1, 9, 128), 2: Load(1, 9, 128), 3: Load(1, 9, 128)}
    num_open = {1: 27, 2: 100}
    found = assignment(loads, num_open, [2])
    assert found.switches == [(0, 2)]
    wanted = shares(num_open, 4)
    assert wanted == {1: 1, 2: 3}
    after = assignment({**loads, 0: Load(2, 0, 128)}, num_open, [2])
    assert after.room[2] == [(0, math.ceil(100 / 3))]


def test_engines_beyond_a_versions_share_get_nothing_more_and_the_emptiest_goes_first():
    loads = {0: Load(1, 5, 128), 1: Load(1, 2, 128), 2: Load(2, 40, 128)}
    found = assignment(loads, {1: 7, 2: 80}, [1, 2])
    assert [engine for engine, _ in found.room[1]] == [0]
    assert found.switches == []
    assert assignment({**loads, 1: Load(1, 0, 128)}, {1: 5, 2: 80}, [1, 2]).switches == [(1, 2)]


def test_an_engine_that_takes_other_weights_counts_for_their_version_and_gets_nothing_yet():
    loads = {0: Load(1, 5, 128), 1: Load(2, 0, 128, is_ready=False), 2: Load(1, 0, 128)}
    found = assignment(loads, {1: 5, 2: 10}, [2])
    assert (found.room[2], found.switches) == ([], [])
