from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ada_lightning.run.run_dir import RunDir

HOLD = """
import sys
from ada_lightning.run.run_dir import RunDir
run = RunDir(sys.argv[1])
run.claim(resume=False)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_is_gone_however_it_went(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        run_dir = RunDir(tmp_path / "run")
        with pytest.raises(ValueError, match=rf"another process \(process {holder.pid} on .*run_name=<new name>"):
            run_dir.claim(resume=False)
    finally:
        holder.kill()
        holder.communicate()
    run_dir.claim(resume=False)
    with pytest.raises(ValueError, match="another process"):  # a second object of this process is another run too
        RunDir(tmp_path / "run").claim(resume=False)
    run_dir.release()
    run_dir.release()
    RunDir(tmp_path / "run").claim(resume=False)


CLAIM_LATE = """
import fcntl, sys
from ada_lightning.run.run_dir import RunDir
flock = fcntl.flock
def late(file, how):
    fcntl.flock = flock
    print("opened", flush=True)
    sys.stdin.readline()
    flock(file, how)
fcntl.flock = late
run = RunDir(sys.argv[1])
run.claim(resume=False)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_that_was_given_up_between_its_opening_and_its_locking_is_taken_anew(tmp_path):
    """Two processes: the first deletes the lock's file and the folder that it made, while the second opens it."""
    first, third = RunDir(tmp_path / "run"), RunDir(tmp_path / "run")
    first.claim(resume=False)
    second = subprocess.Popen(
        [sys.executable, "-c", CLAIM_LATE, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert second.stdout.readline() == "opened\n"
        first.give_up()
        assert not (tmp_path / "run").exists()
        second.stdin.write("\n")
        second.stdin.flush()
        assert second.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match=rf"another process \(process {second.pid} on "):
            third.claim(resume=False)
    finally:
        second.kill()
        second.communicate()
    third.claim(resume=False)


def test_a_lock_that_can_never_be_opened_is_an_error_and_one_that_always_looks_unlinked_is_taken(tmp_path, monkeypatch):
    """As a copy leaves a link to nowhere, and some network file systems number a file anew at every look."""
    (tmp_path / ".lock").symlink_to(tmp_path / "nowhere" / "lock")
    with pytest.raises(ValueError, match=r"cannot be written .*No such file.*run_dir=<folder>"):
        RunDir(tmp_path).claim(resume=False)
    (tmp_path / ".lock").unlink()
    monkeypatch.setattr(os.path, "samestat", lambda opened, found: False)
    first = RunDir(tmp_path)
    first.claim(resume=False)
    with pytest.raises(ValueError, match="another process"):
        RunDir(tmp_path).claim(resume=False)
    first.release()


def test_auto_starts_in_a_used_folder_without_a_checkpoint(tmp_path):
    (tmp_path / "config.yaml").touch()
    run_dir = RunDir(tmp_path)
    with pytest.raises(ValueError, match="in use"):
        run_dir.claim(resume=False)
    with pytest.raises(ValueError, match="ckpt=auto"):
        run_dir.claim(resume=True)
    run_dir.claim(resume=True, or_start=True)
