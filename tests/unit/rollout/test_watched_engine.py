from __future__ import annotations

import pytest

from ada_lightning.rollout.engines.scripted import ScriptedEngine
from ada_lightning.rollout.engines.watchdog import Watchdog
from ada_lightning.rollout.engines.watched_engine import WatchedEngine


@pytest.fixture
def watchdog(tmp_path):
    watchdog = Watchdog(limit_s=60, report_file=tmp_path / "stalled.txt")
    yield watchdog
    watchdog.close()


def test_the_slots_are_those_that_the_engine_has_now(watchdog):
    """A pool that leaves an engine out for good has fewer than it began with."""
    engine = ScriptedEngine(pass_rates={1: 0.5}, max_num_seqs=16)
    watched = WatchedEngine(engine, watchdog)
    engine.max_num_seqs = 8
    assert watched.max_num_seqs == 8


def test_whether_it_can_sleep_is_asked_of_the_engine_each_time(watchdog):
    engine = ScriptedEngine(pass_rates={1: 0.5})
    watched = WatchedEngine(engine, watchdog)
    assert watched.sleep_level == 0
    engine.sleep_level = 1
    assert watched.sleep_level == 1
