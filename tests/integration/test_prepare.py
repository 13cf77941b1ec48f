"""prepare.py with the real engine, real reward workers and the tiny model. Training on it: test_walkthrough.py."""

from __future__ import annotations

import os
import signal
import time

import pyarrow.parquet as pq
import pytest

from ada_lightning.analysis.offline import ResponseStore
from tests.processes import is_gone

pytestmark = pytest.mark.vllm

SMALL = [
    "model=tiny",
    "reward=function",
    "reward.reward.path=tests.integration.graders.has_few_letters",
    "rollout.engine.dtype=float32",
    "rollout.engine.kv_cache_gib=0.05",
    "rollout.engine.max_num_seqs=16",
    "rollout.sampling.max_new_tokens=16",
    "data.source.num_train=24",
    "data.source.num_heldout=8",
]


def command(folder, *overrides):
    own = [f"run_name={folder.name}", f"run_dir={folder}", "num_samples=8", "prompts_per_file=2"]
    return ["prepare.py", *SMALL, *own, *overrides]


def interrupted(programs, folder):
    """Start, and send SIGTERM once something is stored; SIGKILL: tests/unit/analysis/offline/test_sampling_job.py."""
    pid = programs.start(*command(folder))
    deadline = time.monotonic() + 300
    while not ResponseStore(folder).parts and not is_gone(pid):
        assert time.monotonic() < deadline, programs.printed(pid)
        time.sleep(0.002)
    os.kill(pid, signal.SIGTERM)
    done = programs.wait(pid)
    return done.returncode, done.stderr


@pytest.mark.long
def test_an_interrupted_preparation_ends_with_the_same_responses(programs, tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    done = programs.run(*command(whole, "band.min_positive=1"))
    assert done.returncode == 0, done.stderr
    assert f"data.only={whole}" in done.stdout
    returncode, stderr = interrupted(programs, stopped)
    assert returncode == 1, stderr
    assert "SIGTERM: " in stderr
    assert "the same command again continues there" in stderr
    num_stored = len(ResponseStore(stopped).finished())
    assert 0 < num_stored < 24
    done = programs.run(*command(stopped, "band.min_positive=1"))
    assert done.returncode == 0, done.stderr
    table = ResponseStore(whole).table()
    assert table.num_rows == 24 * 8
    assert ResponseStore(stopped).table() == table
    assert pq.read_table(stopped / "prompts.parquet") == pq.read_table(whole / "prompts.parquet")
    rates = set(pq.read_table(whole / "prompts.parquet")["pass_rate"].to_pylist())
    assert len(rates) > 1
    assert pq.read_table(whole / "selected.parquet").num_rows > 0
