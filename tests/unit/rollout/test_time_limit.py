"""Calls that never return, in a process of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ada_lightning.rollout.engines.time_limit import TimeLimit
from ada_lightning.run.stopping import STALLED
from research.scripted import ScriptedEngine

ROOT = Path(__file__).parents[3]
LIMITED = """
import ctypes, sys, time
from pathlib import Path
from research.scripted import ScriptedEngine
from ada_lightning.rollout.engines.time_limit import TimeLimit

class Engine(ScriptedEngine):
    def poll(self):
        lock_for_ever()

def lock_for_ever():
    mutex = ctypes.create_string_buffer(64)
    ctypes.CDLL(None).pthread_mutex_lock(mutex)
    ctypes.CDLL(None).pthread_mutex_lock(mutex)

time_limit = TimeLimit(stall_limit_s={limit_s}, start_limit_s=60, report_file=Path({report!r}))
engine = time_limit.engine(Engine(pass_rates={{}}))
{body}
"""


def start(tmp_path, body, limit_s=0.2):
    program = LIMITED.format(limit_s=limit_s, report=str(tmp_path / "stalled.txt"), body=body)
    return subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_call_that_never_returns_ends_the_process_with_its_stack(tmp_path):
    process = start(tmp_path, "engine.poll()")
    _, err = process.communicate()
    assert process.returncode == STALLED
    for text in (err, (tmp_path / "stalled.txt").read_text()):
        assert "the engine hangs: poll has not returned within rollout.stall_limit_s = 0.2 s" in text
        assert "ckpt=last" in text
        assert "lock_for_ever" in text


def test_each_call_has_the_time_for_itself_and_between_calls_nothing_is_limited(tmp_path):
    limit = TimeLimit(stall_limit_s=0.5, start_limit_s=60, report_file=tmp_path / "stalled.txt")
    try:
        with limit.watch("start", "start_limit_s"):
            time.sleep(0.8)
        for _ in range(3):
            with limit.watch("poll"):
                time.sleep(0.3)
        time.sleep(0.8)
    finally:
        limit.close()
    limit.close()
    assert not (tmp_path / "stalled.txt").exists()


def test_time_in_which_the_process_was_stopped_does_not_count(tmp_path):
    """Stopped in a call for longer than it may take, as by Ctrl-Z or a scheduler."""
    process = start(tmp_path, "with time_limit.watch('poll'): print('in', flush=True); sys.stdin.readline()", limit_s=2)
    assert process.stdout.readline() == "in\n"
    process.send_signal(signal.SIGSTOP)
    time.sleep(3.0)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate("\n")
    assert process.returncode == 0, err


def test_the_engine_stays_what_it_is(tmp_path):
    """A pool that leaves an engine out for good has fewer slots than it began with."""
    engine = ScriptedEngine(pass_rates={1: 0.5}, max_num_seqs=16)
    limit = TimeLimit(stall_limit_s=60, start_limit_s=60, report_file=tmp_path / "stalled.txt")
    limited = limit.engine(engine)
    assert (limited.max_num_seqs, limited.poll()) == (16, [])
    engine.max_num_seqs = 8
    assert limited.max_num_seqs == 8
    limit.close()


@pytest.mark.parametrize("limit", [0, -1, float("inf")])
@pytest.mark.parametrize("name", ["stall_limit_s", "start_limit_s"])
def test_a_limit_that_is_none_is_refused(name, limit):
    with pytest.raises(ValueError, match=rf"rollout\.{name} must be a positive number of seconds; got {limit}"):
        TimeLimit(**{"stall_limit_s": 60, "start_limit_s": 60, name: limit}, report_file=Path("x"))
