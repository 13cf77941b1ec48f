"""Faults in whole runs: the real engine, real reward workers, the tiny model."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest
import torch

from ada_lightning.callbacks.prompt_log import read_prompts
from ada_lightning.callbacks.response_log import read_responses
from ada_lightning.run.run_dir import RunDir
from ada_lightning.run.stopping import REQUEUE, STALLED, RunStoppedError
from research.benchmarks.exact_resume import differences
from research.benchmarks.faults.inject import Fault, read_done, write_schedule
from tests.integration.conftest import QUIET, SMALL, WITHOUT_VLLM, column, logged_runs, members, rows, wait_until
from tests.processes import is_gone

pytestmark = pytest.mark.vllm

EXACT = (
    "reproducible=true",
    "callbacks.checkpoint.every_n_steps=1",
    "callbacks.response_log.every_n_steps=1",
    "callbacks.response_log.max_prompts=inf",
    "~callbacks.preview",
    *QUIET,
    "+callbacks.trace._target_=research.benchmarks.faults.trace.Trace",
    "+callbacks.trace.run_dir=${run_dir}",
)


SLURM = {  # as in a job of that scheduler, whose signal Lightning would answer in its own way
    "SLURM_JOB_ID": "1",
    "SLURM_JOB_NAME": "train",
    "SLURM_NTASKS": "1",
    "SLURM_NODEID": "0",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODELIST": "localhost",
}


def faulty(tmp_path, *faults):
    """Options of a run in which these faults happen."""
    schedule = tmp_path / "schedule.json"
    write_schedule(schedule, list(faults))
    return (
        "+callbacks.faults._target_=research.benchmarks.faults.inject.FaultInjector",
        "+callbacks.faults.run_dir=${run_dir}",
        f"+callbacks.faults.schedule={schedule}",
    )


class Sessions:
    """Whole runs of ``train.py`` under a scheduler."""

    def __init__(self, programs):
        self._programs = programs

    def start(self, *options):
        return self._programs.start("train.py", "+experiment=ada_seq_balance", *SMALL, *options, environment=SLURM)

    def printed(self, pid):
        return "".join(self._programs.printed(pid))

    def wait(self, pid):
        """Exit code, and what was printed."""
        return self._programs.wait(pid).returncode, self.printed(pid)

    def run(self, *options):
        return self.wait(self.start(*options))


@pytest.fixture
def sessions(programs):
    return Sessions(programs)


@pytest.fixture
def unbroken():
    """Undo what the injector does to classes, for runs in this process."""
    from ada_lightning.callbacks.checkpoint import RolloutCheckpoint
    from ada_lightning.callbacks.mlflow_run import MlflowRun
    from ada_lightning.rollout.engines.vllm_engine import VllmEngine

    kept = VllmEngine.poll, VllmEngine.load_weights, RolloutCheckpoint.save, MlflowRun.log_metrics
    yield
    VllmEngine.poll, VllmEngine.load_weights, RolloutCheckpoint.save, MlflowRun.log_metrics = kept


@pytest.mark.long
def test_a_run_killed_at_several_moments_is_the_run_it_would_have_been(sessions, tmp_path):
    """SIGKILL in a rollout, an update and before a checkpoint: the same tokens, weights and files."""
    whole = tmp_path / "whole"
    assert sessions.run(*EXACT, f"run_dir={whole}", "num_steps=3")[0] == 0
    kills = [
        Fault(0, 0, "kill_in_rollout", 3),
        Fault(1, 1, "kill_in_update", 1),
        Fault(2, 2, "kill_before_checkpoint"),
        Fault(3, 3, "kill_after_checkpoint"),  # of the last step: only the end of the run is owed
    ]
    options = [*EXACT, *faulty(tmp_path, *kills), f"run_dir={tmp_path}/killed", "run_name=killed", "num_steps=3"]
    codes = []
    while not codes or codes[-1]:
        codes.append(sessions.run(*options, "ckpt=auto")[0])
        assert len(codes) <= 5
    assert codes == [-signal.SIGKILL] * 4 + [0]
    found = differences(whole, tmp_path / "killed")
    assert (found["rollouts"], found["updates"]) == (3, 2)  # the last update was killed before its record
    zeros = [name for name in found if name.startswith(("missing", "rollouts_with", "updates_with"))]
    assert {name: found[name] for name in zeros} == dict.fromkeys(zeros, 0)
    assert found["weight_difference"] <= 1e-6
    assert found["metric_cells_that_differ"] == []
    assert found["prompt_log_is_equal"]
    assert found["responses_are_equal"]


@pytest.mark.long
def test_every_response_is_counted_once(train, tmp_path, unbroken):
    """Engine, worker, gradient and memory faults in one run: what the files say of it adds up."""
    faults = [
        Fault(0, 0, "engine_dies", 4),
        Fault(1, 1, "worker_dies", 2),
        Fault(2, 1, "nan_loss", 1),
        Fault(3, 2, "gpu_memory", 1),
    ]
    with pytest.warns(RuntimeWarning) as caught:
        folder = train(*EXACT[1:], *faulty(tmp_path, *faults), "num_steps=3", vllm=True)
    assert [entry["kind"] for entry in read_done(folder)] == ["engine_dies", "worker_dies", "nan_loss", "gpu_memory"]
    texts = "\n".join(str(warning.message) for warning in caught)
    for text in ("the engine died", "update 2 is left out: its gradient norm is nan", "ran out of memory"):
        assert text in texts
    assert column(folder, "train/skipped_updates") == [0, 1, 1]
    assert column(folder, "train/memory_retries") == [0, 0, 1]
    prompts, responses = read_prompts(folder), read_responses(folder, "train")
    assert not prompts.duplicated(["step", "slot"]).any()
    assert not responses.duplicated(["step", "slot", "sample_index"]).any()
    assert prompts.groupby("step").num_drawn.sum().tolist() == column(folder, "rollout/num_sampled")
    assert responses.groupby("step").size().tolist() == prompts.groupby("step").num_sampled.sum().tolist()
    assert json.loads((folder / "summary.json").read_text())["responses"] == prompts.num_drawn.sum()


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGUSR1]
)  # SIGTERM: test_several_processes.py
def test_a_signal_leaves_a_checkpoint_a_killed_run_and_no_process(sessions, store, tmp_path, number):
    """Ctrl-C goes to all processes of the run, a scheduler's signals to the first."""
    options = [f"run_dir={tmp_path}/run", "run_name=run", f"logger.mlflow.tracking_uri={store}", *QUIET[1:],
               "~callbacks.preview", "num_steps=500"]  # fmt: skip
    if number == signal.SIGUSR1:  # as above, and what differs is no matter of the engine
        options += WITHOUT_VLLM
    pid = sessions.start(*options)
    metrics = tmp_path / "run" / "metrics.csv"
    try:
        # Times are no requirement: a hanging run must fail, not block.
        wait_until(lambda: is_gone(pid) or (metrics.exists() and metrics.read_text().count("\n") > 3), seconds=240)
        assert not is_gone(pid), sessions.printed(pid)
        if number == signal.SIGUSR1:
            refused, out = sessions.run(*options, "ckpt=auto")
            assert refused == 1
            assert f"another process (process {pid} on" in out
        os.killpg(pid, number) if number == signal.SIGINT else os.kill(pid, number)
        wait_until(lambda: is_gone(pid), seconds=120)
    except BaseException:
        os.killpg(pid, signal.SIGKILL)
        raise
    code, out = sessions.wait(pid)
    assert code == (1 if number == signal.SIGINT else REQUEUE), out
    assert f"{number.name}: stopping at the next safe point" in out
    assert "ckpt=last" in out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    state = torch.load(tmp_path / "run/checkpoints/last/trainer.ckpt", weights_only=True)
    assert state["rollout_checkpoint"]["policy_version"] == summary["policy_version"] > 0
    (run,) = logged_runs(store)
    assert run.info.status == "KILLED"
    wait_until(lambda: not members(pid))  # reward workers and their server are gone too


@pytest.mark.long
def test_an_engine_that_is_stuck_ends_the_process_and_the_run_goes_on(sessions, train, tmp_path, unbroken):
    options = [*QUIET, "~callbacks.preview", "num_steps=2", "rollout.stall_limit_s=12",
               "callbacks.checkpoint.every_n_steps=1", *faulty(tmp_path, Fault(0, 1, "engine_stuck", 2))]  # fmt: skip
    code, out = sessions.run(*options, f"run_dir={tmp_path}/run", "run_name=run")
    assert code == STALLED, out
    assert "poll has not returned within rollout.stall_limit_s = 12 s" in out
    assert "_lock_for_ever" in (tmp_path / "run" / "stalled.txt").read_text()
    train(*options, "ckpt=last")
    assert column(tmp_path / "run", "train/loss")
    assert len(rows(tmp_path / "run")) == 3


@pytest.mark.long
def test_a_full_disk_stops_the_run_and_leaves_the_last_good_checkpoint(train, tmp_path, unbroken):
    """No file may grow beyond 100 kB while the second checkpoint is written; a real full disk is a test of its own."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    options = [*EXACT[1:-2], "num_steps=3"]
    try:
        with pytest.raises(RunStoppedError, match=r"policy version 2 could not be written .*: make room"):
            train(*options, *faulty(tmp_path, Fault(0, 2, "disk_full")))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    folder = tmp_path / "run"
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["last", "step_000001"]
    assert RunDir(folder).good_checkpoint().name == "step_000001"
    train(*options, "ckpt=last")
    assert [float(row["step"]) for row in rows(folder)] == [0, 1, 2, 3]


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_disk_that_is_really_full_corrupts_nothing(sessions, train, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", small], check=False).returncode:
        pytest.skip("this machine lets nobody mount a disk")
    try:
        options = [f"run_dir={small}/run", *QUIET, "~callbacks.preview", "num_steps=4",
                   "callbacks.checkpoint.every_n_steps=1", "callbacks.checkpoint.keep_last=9"]  # fmt: skip
        code, out = sessions.run(*options, "run_name=run")
        assert code == 1, out
        assert "ckpt=auto" in out
        assert "Traceback" not in out
        run_dir = RunDir(small / "run")
        assert run_dir.good_checkpoint().name.startswith("step_00000")
        version = int(run_dir.last_checkpoint().name[-6:])
        assert [float(row["step"]) for row in rows(run_dir.path)][:version] == list(map(float, range(version)))
        assert read_prompts(run_dir.path).groupby("step").size().eq(4).all()
        subprocess.run(["mount", "-o", "remount,size=200m", small], check=True)
        train(*options, "ckpt=last")
        assert [float(row["step"]) for row in rows(run_dir.path)] == [0, 1, 2, 3, 4]
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_a_damaged_checkpoint_is_passed_over(train, capsys):
    folder = train("num_steps=2", "callbacks.checkpoint.every_n_steps=1", "~callbacks.preview")
    weights = folder / "checkpoints" / "step_000002" / "policy" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    train("num_steps=3", "ckpt=last", "~callbacks.preview")
    out = capsys.readouterr().out
    assert "model.safetensors has" in out
    assert "continuing from step_000001" in out
    assert [float(row["step"]) for row in rows(folder)] == [0, 1, 2, 3]


@pytest.mark.long
def test_weights_that_are_not_the_trainers_stop_the_run_before_a_checkpoint(train, tmp_path, unbroken):
    options = [*EXACT[1:-2], "num_steps=3", *faulty(tmp_path, Fault(0, 1, "sync_mismatch"))]
    with pytest.raises(RunStoppedError, match=r"differ from the trainer's by \d+\.\d+ nat .*stop_logprob_gap = 0.05"):
        train(*options, "callbacks.adaptive_sampling.stop_logprob_gap=0.05",
              "callbacks.adaptive_sampling.max_logprob_gap=0.01", vllm=True)  # fmt: skip
    assert RunDir(tmp_path / "run").last_checkpoint().name == "step_000001"
