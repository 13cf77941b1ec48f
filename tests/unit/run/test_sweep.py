"""Whole sweeps through Hydra, with a run that trains nothing."""

from __future__ import annotations

import json
import re
import sys
import warnings
import weakref

import hydra
import pytest

from ada_lightning.cli import train as program
from ada_lightning.config.generated import CONFIG_DIR as CONF
from ada_lightning.config.overrides import sweep_jobs
from ada_lightning.programs import train as jobs
from ada_lightning.programs import training_run
from ada_lightning.run import terminal
from ada_lightning.run.run_dir import RunCompleteError
from ada_lightning.run.stopping import RunStoppedError
from ada_lightning.run.sweep import JobError, Sweep, SweepJobError


class FakeRun:
    """Checks what a real run checks of its folder, and does what its seed is told to."""

    started = ends = None  # of the sweep that is running

    def __init__(self, cfg, run_dir):
        self.cfg, self.run_dir = cfg, run_dir
        training_run.checkpoint_to_continue(cfg, run_dir)

    def fit(self):
        FakeRun.started.append(self.cfg.run_name)
        if self.cfg.seed in self.ends:
            raise self.ends[self.cfg.seed]
        return 0.5 - self.cfg.seed / 10


@pytest.fixture
def sweep(monkeypatch, tmp_path, capsys):
    """Run a sweep in the folder ``sw``; returns its exit code (0 where it just ends), the jobs and what was printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training_run, "Run", FakeRun)
    main = hydra.main(version_base="1.3", config_path=str(CONF), config_name="train")(program.run.__wrapped__)

    def run(*overrides, ends=None, swept=()):
        monkeypatch.setattr(jobs, "SWEEP", Sweep())
        jobs.SWEEP.swept = set(swept)
        monkeypatch.setattr(FakeRun, "started", [])
        monkeypatch.setattr(FakeRun, "ends", ends or {})
        arguments = ["-m", "+experiment=ada_seq_balance", "model=tiny", "logger=csv", "run_name=sw", *overrides]
        monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        jobs.SWEEP.report()
        return code, FakeRun.started, "".join(capsys.readouterr())

    return run


def make_complete(folder, average):
    (folder / "checkpoints" / "step_000030").mkdir(parents=True)
    heldout = {
        "eval/avg_at_2": {"after": 0.1, "after_policy_version": 0},
        "eval/avg_at_4": {"after": average, "after_policy_version": 30},
    }
    (folder / "summary.json").write_text(json.dumps({"status": "finished", "steps": 30, "heldout": heldout}))


def test_a_job_that_is_refused_does_not_end_the_sweep_and_is_named_at_its_end(sweep, capsys):
    code, started, out = sweep("sampler.n_max=3,16")
    assert (code, started) == (1, ["sw/1"])
    last = out[out.index("1 of the 2 jobs of the sweep failed:") :]
    assert "sw/0 (" in last
    assert "sampler.n_max=3" in last
    assert "sw/1" not in last
    assert "Traceback" not in out
    jobs.foresee_refusals(["-m", "+experiment=ada_seq_balance", "model=tiny", "run_name=sw", "sampler.n_max=16,3"])
    err = capsys.readouterr().err  # before the first job
    assert err.startswith(
        "job 1 will be refused (+experiment=ada_seq_balance model=tiny run_name=sw sampler.n_max=3): "
    )
    assert "job 0" not in err


def test_jobs_that_stop_or_break_do_not_end_it(sweep):
    ends = {0: RunStoppedError("the loss is not a number"), 1: RuntimeError("a bug")}
    code, started, out = sweep("seed=0,1,2", ends=ends)
    assert (code, started) == (1, ["sw/0", "sw/1", "sw/2"])
    last = out[out.index("2 of the 3 jobs of the sweep failed:") :]
    assert "stopped: the loss is not a number" in last
    assert "error: RuntimeError: a bug" in last
    assert "raise self.ends" in out  # a bug is shown where it is


def test_a_sweep_ends_with_what_its_jobs_came_to(sweep):
    code, _, out = sweep("seed=2,0,1", ends={1: RuntimeError("a bug")})
    assert code == 1
    last = out[out.index("held-out avg@k of the jobs, highest first:") :].splitlines()
    assert [line.partition(" (")[0] for line in last[1:3]] == ["  0.500  sw/1", "  0.300  sw/0"]
    assert "seed=0" in last[1]
    assert "held-out avg@k of the jobs" not in sweep("seed=0")[2]  # of one alone there is nothing to compare


def test_a_signal_ends_the_sweep_with_its_own_code_and_what_is_done_and_how_it_goes_on_is_said(sweep):
    code, started, out = sweep("seed=0,1,2", ends={1: SystemExit(75)})
    assert (code, started) == (75, ["sw/0", "sw/1"])
    assert "the sweep was interrupted; 1 jobs are done: sw/0" in out
    assert "seed=0,1,2" in out[out.index("continue it with: python train.py") :]
    assert "ckpt=auto run_name=sw" in out[out.index("continue it with") :]


def test_a_job_that_is_complete_counts_as_done_unless_its_settings_were_others(sweep, tmp_path, monkeypatch):
    monkeypatch.setattr("ada_lightning.run.run_dir.RunDir.good_checkpoint", lambda self: self.last_checkpoint())
    make_complete(tmp_path / "runs/sw/0", 0.4)
    code, started, out = sweep("seed=0,1", "num_steps=30", "ckpt=auto")
    assert (code, started) == (0, ["sw/1"])
    assert "this run is complete: 30 of num_steps = 30 steps are done" in out
    (tmp_path / "runs/sw/0/config.yaml").write_text("seed: 7\n")
    code, started, out = sweep("seed=0,1", "num_steps=30", "ckpt=auto", "allow_other_method=true")
    assert (code, started) == (1, ["sw/1"])
    assert "has a complete run with other settings" in out


def test_values_in_another_order_continue_no_other_job(sweep, tmp_path, capsys):
    sweep("seed=0,1")  # fake runs leave nothing, so their settings are written here
    for number in (0, 1):
        folder = tmp_path / f"runs/sw/{number}"
        (folder / "checkpoints/step_000010").mkdir(parents=True)
        (folder / "config.yaml").write_text(f"seed: {number}\n")
    options = ["seed=7,1", "ckpt=auto", "allow_other_method=true"]
    jobs.foresee_refusals(["-m", "run_name=sw", "model=tiny", *options])
    swept = jobs.SWEEP.swept
    assert {"seed", "data.seed", "rollout.seed"} <= swept
    assert "num_steps" not in swept
    code, _, out = sweep(*options, swept={"seed"})
    assert code == 1
    assert "runs/sw/0 is of another job of the sweep (seed: 0 -> 7): jobs are known by their number" in out
    assert "of another job of the sweep (seed: 1" not in out


def test_another_method_in_the_folder_of_a_job_is_refused_with_what_continues_that_job(sweep, tmp_path):
    (tmp_path / "runs/sw/0/checkpoints/step_000010").mkdir(parents=True)
    stored = "# python train.py +experiment=grpo\nsampler: {_target_: UniformSampler}\n"
    (tmp_path / "runs/sw/0/config.yaml").write_text(stored)
    code, _, out = sweep("seed=0", "ckpt=auto")
    assert code == 1
    assert "python train.py +experiment=grpo ckpt=last run_name=sw/0;" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["+experiment=grpo,dapo"], "and these jobs name 2 (runs/grpo-"),
        (["run_name=one,two"], "these jobs name 2 (runs/one, runs/two); give the sweep one name: run_name=<name>"),
        (["run_name=s${seed}", "seed=0,1"], "these jobs name 2 (runs/s0, runs/s1)"),
        (["run_name=used", "seed=0,1"], "runs/used is the folder of a run; give the sweep a name of its own"),
    ],
)
def test_a_sweep_has_one_folder_of_its_own(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/used").mkdir(parents=True)
    (tmp_path / "runs/used/config.yaml").touch()
    with pytest.raises(SystemExit, match=re.escape(message)):
        jobs.foresee_refusals(["-m", *options])
    jobs.foresee_refusals(["-m", "+experiment=grpo", "seed=0,1"])


def test_messages_lead_to_the_folder_of_the_job(sweep, tmp_path):
    make_complete(tmp_path / "runs/sw/0", 0.4)
    code, started, out = sweep("seed=0,1")
    assert (code, started) == (1, ["sw/1"])
    assert "ckpt=last run_name=sw/0;" in out


def test_a_complete_job_returns_what_it_returned_when_it_finished():
    def complete():
        raise RunCompleteError("this run is complete", 0.4)

    assert Sweep().run(complete, "sw/0") == 0.4


def test_a_failed_job_leaves_nothing_of_it_in_memory():
    class Model:
        pass

    kept = []

    def job():
        model = Model()
        kept.append(weakref.ref(model))
        try:
            raise ValueError("in the job")
        except ValueError as error:
            raise JobError("error: in the job") from error

    with pytest.raises(SweepJobError, match=r"sw/0: error: in the job") as caught:
        Sweep().run(job, "sw/0")
    assert caught.value.__context__ is None
    assert kept[0]() is None


def test_jobs_are_hydras_own_in_its_order():
    def swept(*argv):
        return [(overrides[:-1], cfg.seed) for overrides, cfg in sweep_jobs([*argv, "+experiment=grpo"], CONF, "train")]

    assert swept("-m", "seed=1,2") == [(["seed=1"], 1), (["seed=2"], 2)]
    assert swept("seed=1") == []
    assert swept("-m", "hydra/sweeper=optuna", "seed=1,2") == []


def test_what_an_earlier_job_has_said_no_later_one_says_again(monkeypatch, capsys):
    """Twice in one job is that job's affair; what differs is said."""
    monkeypatch.setattr(terminal, "_said", set())
    monkeypatch.setattr(terminal, "_said_before", set())
    monkeypatch.setattr(terminal, "_OWN", (__name__.partition(".")[0],))
    sweep = Sweep()

    def job(number):
        for text in ("the same", "the same", f"of job {number}"):
            warnings.warn(text, stacklevel=1)
        return [line for line in ("curves: here", f"folder: {number}") if terminal.is_new(line)]

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        terminal.plain_warnings()
        lines = [sweep.run(lambda number=number: job(number), f"job {number}") for number in range(3)]
    said = re.findall("(the same|of job .)$", capsys.readouterr().err, re.MULTILINE)
    assert said == ["the same", "the same", "of job 0", "of job 1", "of job 2"]
    assert lines == [["curves: here", "folder: 0"], ["folder: 1"], ["folder: 2"]]
