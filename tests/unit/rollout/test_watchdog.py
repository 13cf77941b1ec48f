"""Calls that never return, each in a process of its own: what waits in Python, in native code, and with the lock."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from ada_lightning.exit_codes import STALLED
from ada_lightning.rollout.watchdog import EngineStalledError, Watchdog

ROOT = Path(__file__).parents[3]
STUCK = """
import ctypes, sys
from pathlib import Path
from ada_lightning.rollout.watchdog import Watchdog

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
    """60 ticks of an eighth of a second after the limits: nothing but faulthandler can act."""
    result = run_stuck(tmp_path, "PyDLL")
    assert result.returncode == 1
    assert "lock_for_ever" in result.stderr


@pytest.mark.parametrize("limit", [0, -1, float("inf")])
def test_a_limit_that_is_none_is_refused(limit):
    with pytest.raises(ValueError, match=r"stall_limit_s must be a positive number of seconds"):
        Watchdog(limit_s=limit, report_file=Path("x"))
