"""Two processes' watches over one store, in threads of this process."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
import torch.distributed as dist

from ada_lightning.parallel.host_watch import HostWatch

HOSTS = ("a", "b", "c")


class Breakable:
    """A store that can be lost, for one who uses it."""

    def __init__(self, store):
        self.store, self.is_lost = store, False

    def set_timeout(self, timeout):
        pass

    def set(self, key, value):
        self._check()
        self.store.set(key, value)

    def get(self, key):
        self._check()
        return self.store.get(key)

    def _check(self):
        if self.is_lost:
            raise dist.DistNetworkError("connection reset")


@pytest.fixture
def watched():
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=1))
    ends, watches = [[] for _ in HOSTS], []
    stores = [Breakable(store) for _ in HOSTS]
    for rank, end in enumerate(ends):
        watches.append(HostWatch(stores[rank], rank=rank, hosts=HOSTS, limit_s=1.8, end=end.append))
    yield watches, stores, ends
    for watch in watches:
        watch.close()


def wait_for(is_so):
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_until_all_are_heard_of(watches):
    wait_for(lambda: all(len(watch._heard) == len(HOSTS) - 1 for watch in watches))


def test_nobody_ends_while_all_are_heard_of_or_after_the_watch_is_over(watched):
    watches, _, ends = watched
    time.sleep(2)
    for watch in watches:
        watch.close()
    time.sleep(1.5)
    assert ends == [[], [], []]


def test_the_others_end_when_one_is_silent_and_name_its_host(watched):
    watches, _, ends = watched
    wait_until_all_are_heard_of(watches)
    watches[2].close()
    wait_for(lambda: all(ends[:2]))
    assert ends[0][0].startswith("host c has not been heard of for 0.03 minutes (trainer.strategy.timeout_minutes)")
    assert "this process on host b ends with exit code 76. Continue from the last checkpoint" in ends[1][0]
    assert ends[2] == []


@pytest.mark.parametrize("hangs", [False, True])
def test_without_the_store_it_is_the_first_host_that_is_lost(watched, hangs):
    """Its calls fail, or never return."""
    watches, stores, ends = watched
    wait_until_all_are_heard_of(watches)
    if hangs:
        stores[1].get = lambda key: threading.Event().wait(30)
    stores[1].is_lost = True
    wait_for(lambda: all(ends[1:2]))
    assert ends[1][0].startswith("host a has not been heard of")
