"""Whole runs of two processes as torchrun starts them: real engine in its own process, the tiny model."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch

from tests.integration.conftest import ROOT, SMALL
from tests.integration.test_train import column, rows

pytestmark = pytest.mark.vllm


class Torchrun:
    """Starts ``train.py`` in two processes and gives back its run folder."""

    def __init__(self, folder, store):
        self.folder = folder
        self._store = store

    def start(self, *overrides, name="run"):
        command = [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"),
            *("train.py", "+experiment=ada_seq_balance", f"run_name={name}", f"run_dir={self.folder / name}"),
            *("trainer=fsdp", "rollout=vllm_process", f"logger.mlflow.tracking_uri={self._store}"),
            *(option for option in SMALL if option != "callbacks.checkpoint.every_n_steps=0"),
            *("callbacks.checkpoint.every_n_steps=1", *overrides),
        ]
        return subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip

    def run(self, *overrides, name="run", expected_code=0):
        process = self.start(*overrides, name=name)
        try:
            output, _ = process.communicate(timeout=500)
        finally:
            _kill_all(process)
        assert process.returncode == expected_code, output[-6000:]
        return self.folder / name, output


def _kill_all(process):
    """The launcher and everything that it started has one process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


@pytest.fixture
def torchrun(tmp_path, store):
    return Torchrun(tmp_path, store)


def test_two_processes_train_and_one_process_continues(torchrun, train, tmp_path):
    folder, output = torchrun.run()
    assert "trainer: 2 processes, here on cpu, ShardedStrategy, started by torchrun" in output
    assert len(re.findall("held-out avg@4:", output)) == 1  # one process speaks
    assert len(re.findall(r"^update: ", output, re.MULTILINE)) == 1
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"run", "mlruns"}  # and one has a folder
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["status"], summary["policy_version"]) == ("finished", 2)
    assert max(column(folder, "sync/logprob_gap_max")) < 1e-3  # the engine has the weights that were in shards
    assert column(folder, "train/loss")[0] != 0
    assert sorted(path.name for path in (folder / "checkpoints/last").resolve().iterdir()) == [
        "manifest.json", "optimizer", "policy", "trainer.ckpt",
    ]  # fmt: skip

    alone = train("callbacks.checkpoint.every_n_steps=1", name="alone")
    for name in ("rollout/num_sampled", "rollout/reward_first_round", "rollout/generated_tokens"):
        assert column(folder, name) == column(alone, name), name
    for name in ("train/loss", "train/grad_norm"):
        assert column(folder, name) == pytest.approx(column(alone, name), rel=1e-3, abs=1e-6), name

    continued = train("num_steps=3", "ckpt=last", name="run")
    whole = train("num_steps=3", "ckpt=last", name="alone")
    assert [row["step"] for row in rows(continued)] == [row["step"] for row in rows(whole)]
    assert column(continued, "rollout/generated_tokens") == column(whole, "rollout/generated_tokens")
    assert column(continued, "train/grad_norm") == pytest.approx(column(whole, "train/grad_norm"), rel=1e-2)


def test_a_stopped_run_leaves_a_checkpoint_and_goes_on(torchrun):
    """SIGTERM to all, as srun sends it; then the same command with ckpt=last."""
    process = torchrun.start("num_steps=200")
    folder = torchrun.folder / "run"
    try:
        deadline = time.monotonic() + 400
        while not (folder / "checkpoints/last").exists():
            assert process.poll() is None, process.communicate()[0][-6000:]
            assert time.monotonic() < deadline
            time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=120)
    finally:
        _kill_all(process)
    assert process.returncode != 0
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    state = torch.load(folder / "checkpoints/last/trainer.ckpt", weights_only=True)
    version = state["rollout_checkpoint"]["policy_version"]
    assert version == summary["policy_version"] > 0
    assert "continue with the same options and: ckpt=last run_dir=" in output
    torchrun.run(f"num_steps={version + 1}", "ckpt=last")
    assert json.loads((folder / "summary.json").read_text())["policy_version"] == version + 1
    steps = [int(row["step"]) for row in rows(folder)]
    assert steps == sorted(set(steps))


def test_a_wrong_configuration_is_said_once(torchrun):
    folder, output = torchrun.run("trainer.strategy.tensor_parallel_size=4", expected_code=1)
    assert output.count("does not make 2 processes") == 1
    assert not folder.exists()
