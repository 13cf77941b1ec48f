"""Whole runs of two processes, as torchrun starts them: the engine in a process of its own, the tiny model."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest
import torch

from tests.integration.conftest import QUIET, ROOT, SMALL, WITHOUT_VLLM, column, rows, wait_until
from tests.processes import is_gone

pytestmark = pytest.mark.vllm


OPTIONS = (
    *("+experiment=ada_seq_balance", "run_name=run", "trainer=fsdp", "rollout=vllm_process"),
    "rollout.host.num_threads=1",
    *(option for option in SMALL if option != "callbacks.checkpoint.every_n_steps=0"),
    *WITHOUT_VLLM,
    *QUIET,
    "~callbacks.preview",
    "callbacks.checkpoint.every_n_steps=1",
)


def torchrun(folder, *overrides):
    """Run ``train.py`` in two processes."""
    command = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "train.py")
    return subprocess.run(
        [*command, *OPTIONS, f"run_dir={folder}", *overrides], cwd=ROOT, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False, timeout=600,
    )  # fmt: skip


def start(programs, folder, *overrides, port):
    """The same without the seconds of imports; returns process ids."""
    world = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    world |= {"GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "tests", "OMP_NUM_THREADS": "1"}
    options = (*OPTIONS, f"run_dir={folder}", *overrides)
    ranks = [{"RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    return [programs.start("train.py", *options, environment=world | rank) for rank in ranks]


def ended(programs, pids):
    """Exit codes, and what both printed."""
    done = [programs.wait(pid) for pid in pids]
    return [each.returncode for each in done], "".join(each.stdout + each.stderr for each in done)


@pytest.mark.long
def test_two_processes_stop_at_a_signal_go_on_and_one_process_continues(programs, train, tmp_path, free_port):
    """SIGTERM to all, as srun sends it; then the same command with ckpt=last; then without other processes."""
    folder = tmp_path / "run"
    pids = start(programs, folder, "num_steps=200", port=free_port())
    try:
        wait_until(lambda: any(map(is_gone, pids)) or (folder / "checkpoints/last").exists(), seconds=400)
        assert not any(map(is_gone, pids)), [programs.printed(pid) for pid in pids]
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        wait_until(lambda: all(map(is_gone, pids)), seconds=120)
    except BaseException:
        for pid in pids:
            os.killpg(pid, signal.SIGKILL)
        raise
    codes, output = ended(programs, pids)
    assert 0 not in codes
    assert "trainer: 2 processes, here on cpu, ShardedStrategy, started by torchrun" in output
    assert "SIGTERM: stopping at the next safe point" in output
    assert "continue with the same options and: ckpt=last run_dir=" in output
    assert json.loads((folder / "summary.json").read_text())["status"] == "interrupted"
    state = torch.load(folder / "checkpoints/last/trainer.ckpt", weights_only=True)
    version = state["rollout_checkpoint"]["policy_version"]
    assert version == json.loads((folder / "summary.json").read_text())["policy_version"] > 0

    codes, output = ended(programs, start(programs, folder, f"num_steps={version + 1}", "ckpt=last", port=free_port()))
    assert codes == [0, 0], output[-6000:]
    assert len(re.findall("held-out avg@4:", output)) == 1  # one process speaks
    assert len(re.findall(r"^update: ", output, re.MULTILINE)) == 1
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["run"]  # and one has a folder
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["status"], summary["policy_version"]) == ("finished", version + 1)
    steps = [int(row["step"]) for row in rows(folder)]
    assert steps == sorted(set(steps))
    assert max(column(folder, "sync/logprob_gap_max")) < 1e-3  # the engine has the weights that were in shards
    assert sorted(path.name for path in (folder / "checkpoints/last").resolve().iterdir()) == [
        "manifest.json", "optimizer", "policy", "trainer.ckpt",
    ]  # fmt: skip

    alone = train(f"num_steps={version + 2}", name="alone")
    for name in ("rollout/num_sampled", "rollout/reward_first_round", "rollout/generated_tokens"):
        assert column(folder, name) == column(alone, name)[:-1], name
    for name in ("train/loss", "train/grad_norm"):
        assert column(folder, name) == pytest.approx(column(alone, name)[:-1], rel=1e-2, abs=1e-6), name
    # The first step has the same weights; its loss is that of ratios of 1, all but 0.
    assert column(folder, "train/grad_norm")[0] == pytest.approx(column(alone, "train/grad_norm")[0], rel=1e-3)

    continued = train(f"num_steps={version + 2}", "ckpt=last", name="run")
    assert [row["step"] for row in rows(continued)] == [row["step"] for row in rows(alone)]
    assert column(continued, "rollout/generated_tokens") == column(alone, "rollout/generated_tokens")
    assert column(continued, "train/grad_norm") == pytest.approx(column(alone, "train/grad_norm"), rel=1e-2)


@pytest.mark.long
def test_a_wrong_configuration_is_said_once_though_torchrun_ends_whoever_is_later(tmp_path):
    done = torchrun(tmp_path / "run", "trainer.strategy.tensor_parallel_size=4")
    assert done.returncode != 0
    assert done.stdout.count("does not make 2 processes") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_processes_of_torchrun_know_each_other_and_one_refuses_a_folder_in_use(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    done = torchrun(tmp_path)
    assert done.returncode != 0
    assert done.stdout.count("trainer: 2 processes, here on cpu, ShardedStrategy, started by torchrun") == 1
    assert done.stdout.count("is in use (it has checkpoints)") == 1


@pytest.fixture
def free_port():
    def find():
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            return listener.getsockname()[1]

    return find
