"""Calls that never return, each in a process of its own: what waits in Python, in native code, and with the lock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from ada_lightning.rollout.engines.exit_codes import STALLED
from ada_lightning.rollout.engines.last_resort import HUNG_SIGNAL
from ada_lightning.rollout.engines.watchdog import EngineStalledError, Watchdog, _Call

ROOT = Path(__file__).parents[3]
STUCK = """
import ctypes, sys
from pathlib import Path
from ada_lightning.rollout.engines.watchdog import Watchdog

def lock_for_ever(library):
    mutex = ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)

watchdog = Watchdog(limit_s=0.2, grace_s=0.2, report_file=Path(sys.argv[1]))
with watchdog.watch("poll"):
    lock_for_ever(ctypes.{library}(None))
"""


def run_stuck(tmp_path, library):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(STUCK.format(library=library)), str(tmp_path / "stalled.txt")],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_a_call_that_waits_in_python_is_interrupted_and_the_next_one_is_watched_anew(tmp_path):
    watchdog = Watchdog(limit_s=0.2, report_file=tmp_path / "stalled.txt")
    try:
        for _ in range(2):
            with pytest.raises(EngineStalledError, match=r"poll did not return within rollout.stall_limit_s = 0.2 s"):  # noqa: SIM117
                with watchdog.watch("poll"):
                    time.sleep(60)
        with watchdog.watch("poll"):
            pass
        time.sleep(0.5)  # between calls nothing is watched
    finally:
        watchdog.close()
    watchdog.close()
    assert not (tmp_path / "stalled.txt").exists()


def test_native_code_that_never_returns_ends_the_process_with_its_stack(tmp_path):
    result = run_stuck(tmp_path, "CDLL")
    assert result.returncode == STALLED
    for text in (result.stderr, (tmp_path / "stalled.txt").read_text()):
        assert "the engine hangs: poll has not returned" in text
        assert "ckpt=last" in text
        assert "lock_for_ever" in text


def test_native_code_that_holds_the_interpreter_ends_the_process_with_its_stack(tmp_path):
    """60 ticks of a twentieth of a second after the limits: only another process can act."""
    result = run_stuck(tmp_path, "PyDLL")
    assert result.returncode == -HUNG_SIGNAL
    assert "native code hangs and holds the interpreter's lock" in result.stderr
    assert "lock_for_ever" in result.stderr


STOPPED = """
import sys
from pathlib import Path
from ada_lightning.rollout.engines.watchdog import Watchdog

watchdog = Watchdog(limit_s=0.2, grace_s=0.2, report_file=Path(sys.argv[1]))
with watchdog.watch("poll"):
    pass
print(watchdog._last_resort._process.pid if hasattr(watchdog, "_last_resort") else 0, flush=True)
sys.stdin.readline()
watchdog.close()
print("went on")
"""


def wait_for_state(pid, state):
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != state:
        time.sleep(0.01)


@pytest.mark.parametrize("is_watcher_stopped", [False, True])
def test_a_process_that_was_stopped_goes_on_when_it_is_continued(tmp_path, is_watcher_stopped):
    """Stopped for longer than the last resort waits (3.4 s), as by Ctrl-Z or a scheduler; a container stops both."""
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(tmp_path / "stalled.txt")],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    watcher = int(process.stdout.readline())
    stopped = [process.pid, *([watcher] if is_watcher_stopped and watcher else [])]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
        wait_for_state(pid, "T")
    time.sleep(4.0)
    for pid in reversed(stopped):
        os.kill(pid, signal.SIGCONT)
    out, err = process.communicate("\n")
    assert (process.returncode, out) == (0, "went on\n"), err


def test_time_in_which_the_process_was_stopped_counts_for_no_call(tmp_path, monkeypatch):
    ended = []
    watchdog = Watchdog(limit_s=600, grace_s=30, report_file=tmp_path / "stalled.txt")
    monkeypatch.setattr(watchdog, "_end_process", ended.append)
    call = _Call("poll", "stall_limit_s", 600)
    watchdog._look_at(call, 100_000.0)
    for _ in range(600 + 30 - 2):
        watchdog._look_at(call, 1.0)
    assert ended == []
    watchdog._look_at(call, 1.0)
    assert ended == [call]


def test_the_watching_process_ends_with_the_one_it_watches(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(tmp_path / "stalled.txt")],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    watcher = int(process.stdout.readline())
    process.kill()
    process.communicate()
    wait_until_gone(watcher)


def test_the_watching_process_ends_when_it_is_closed(tmp_path):
    watchdog = Watchdog(limit_s=60, report_file=tmp_path / "stalled.txt")
    with watchdog.watch("poll"):
        watcher = watchdog._last_resort._process.pid
    watchdog.close()
    assert not Path(f"/proc/{watcher}").exists()


def wait_until_gone(pid):
    while (status := Path(f"/proc/{pid}/stat")).exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)


@pytest.mark.parametrize("limit", [0, -1, float("inf")])
def test_a_limit_that_is_none_is_refused(limit):
    with pytest.raises(ValueError, match=r"stall_limit_s must be a positive number of seconds"):
        Watchdog(limit_s=limit, report_file=Path("x"))
