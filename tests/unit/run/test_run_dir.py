import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from ada_lightning.run.run_dir import RunCompleteError, RunDir, name_problem


@pytest.fixture
def run_dir(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return RunDir(tmp_path / "runs" / "my_run")


def make_checkpoint(run_dir, name):
    folder = run_dir.checkpoints / name
    folder.mkdir(parents=True)
    return folder


def test_fresh_start_makes_the_folder(run_dir):
    run_dir.claim(resume=False)
    assert run_dir.path.is_dir()


@pytest.mark.parametrize("used", ["config.yaml", "metrics.csv", "checkpoints"])
def test_fresh_start_in_a_used_folder_names_both_ways_out(run_dir, used):
    run_dir.claim(resume=False)
    (run_dir.path / used).mkdir()
    with pytest.raises(
        ValueError, match=rf"{used}.*its own options and ckpt=last run_name=my_run.*run_name=<new name>"
    ):
        run_dir.claim(resume=False)


def test_folder_with_a_log_file_only_is_not_in_use(run_dir):
    run_dir.claim(resume=False)
    (run_dir.path / "train.log").touch()
    run_dir.claim(resume=False)


def test_resume_without_a_checkpoint_is_refused(run_dir):
    make_checkpoint(run_dir, "step_000010.tmp")
    with pytest.raises(ValueError, match="no complete checkpoint"):
        run_dir.claim(resume=True)


def test_resume_continues_in_the_used_folder(run_dir):
    make_checkpoint(run_dir, "step_000010")
    run_dir.claim(resume=True)


def test_last_checkpoint_is_the_highest_complete_step(run_dir):
    for name in ("step_9", "step_000010", "step_000020.tmp", ".step_30.tmp1"):
        make_checkpoint(run_dir, name)
    assert run_dir.last_checkpoint().name == "step_000010"


def test_last_checkpoint_follows_the_link(run_dir):
    for name in ("step_000010", "step_000020"):
        make_checkpoint(run_dir, name)
    (run_dir.checkpoints / "last").symlink_to("step_000010")
    assert run_dir.last_checkpoint().name == "step_000010"


def test_link_to_a_deleted_checkpoint_is_ignored(run_dir):
    make_checkpoint(run_dir, "step_000010")
    (run_dir.checkpoints / "last").symlink_to("step_000005")
    assert run_dir.last_checkpoint().name == "step_000010"


def test_config_is_written_resolved(run_dir):
    file = run_dir.write_config(OmegaConf.create({"name": "x", "folder": "runs/${name}"}))
    assert yaml.safe_load(file.read_text()) == {"name": "x", "folder": "runs/x"}


def test_resume_keeps_the_first_config_and_adds_what_differs(run_dir):
    names = [
        run_dir.write_config(OmegaConf.create({"lr": lr, "ckpt": ckpt})).name
        for lr, ckpt in ((1, None), (1, "last"), (2, "last"), (2, "last"), (3, "last"))
    ]
    assert names == ["config.yaml", "config.yaml", *["config-resumed-1.yaml"] * 2, "config-resumed-2.yaml"]
    assert yaml.safe_load((run_dir.path / "config.yaml").read_text()) == {"lr": 1, "ckpt": None}


def test_summary_replaces_the_old_one_and_leaves_no_other_file(run_dir):
    run_dir.write_summary({"steps": 1})
    file = run_dir.write_summary({"steps": 2})
    assert json.loads(file.read_text()) == {"steps": 2}
    assert [path.name for path in run_dir.path.iterdir()] == ["summary.json"]


def test_mlflow_run_is_remembered(run_dir):
    assert run_dir.mlflow_run_id == ""
    run_dir.write_mlflow_run_id("abc")
    assert RunDir(run_dir.path).mlflow_run_id == "abc"


def test_a_complete_run_says_so_and_one_that_can_go_on_does_not(run_dir):
    run_dir.check_not_complete(3)
    run_dir.write_summary({"status": "interrupted", "steps": 3})
    run_dir.check_not_complete(3)
    run_dir.write_summary({"status": "finished", "steps": 3})
    run_dir.check_not_complete(4)
    with pytest.raises(ValueError, match=r"this run is complete: 3 of num_steps = 3 steps are done; raise num_steps"):
        run_dir.check_not_complete(3)


def test_a_complete_run_hands_on_its_last_average_of_the_k_it_was_evaluated_with_last(run_dir):
    heldout = {
        "eval/avg_at_8": {"before": 0.1, "before_policy_version": 0, "after": 0.3, "after_policy_version": 3},
        "eval/avg_at_4": {"before": 0.1, "before_policy_version": 0, "after": 0.2, "after_policy_version": 1},
    }
    run_dir.write_summary({"status": "finished", "steps": 3, "heldout": heldout})
    with pytest.raises(RunCompleteError) as complete:
        run_dir.check_not_complete(3)
    assert complete.value.average == 0.3
    run_dir.write_summary({"status": "finished", "steps": 3, "heldout": {}})
    with pytest.raises(RunCompleteError) as complete:
        run_dir.check_not_complete(3)
    assert complete.value.average is None


def test_a_folder_is_named_by_what_leads_to_it_on_the_command_line(run_dir, tmp_path):
    assert run_dir.option == "run_name=my_run"
    assert RunDir("runs/sweep/0").option == "run_name=sweep/0"
    assert RunDir(tmp_path / "elsewhere" / "0").option == f"run_dir={tmp_path}/elsewhere/0"


def test_pictures_of_the_jobs_of_a_sweep_are_told_apart(run_dir, tmp_path):
    assert run_dir.title == "my_run"
    assert RunDir("runs/sweep/0").title == "sweep/0"
    assert RunDir(tmp_path / "elsewhere" / "0").title == "0"


@pytest.mark.parametrize("call", ["mkdir", "open"])
def test_a_folder_that_may_not_be_written_to_is_said_with_a_way_out(tmp_path, monkeypatch, call):
    def refuse(path, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    run_dir = RunDir(tmp_path / "run")
    monkeypatch.setattr(Path, call, refuse)
    with pytest.raises(ValueError, match="may not write to the run folder") as error:
        run_dir.claim(resume=False)
    assert "run_dir=<folder>" in str(error.value)
    assert "mkdir -p runs" in str(error.value)


def test_a_new_run_folder_is_its_owners_alone(tmp_path):
    made_by_hydra = tmp_path / "hydra"
    made_by_hydra.mkdir(mode=0o755)
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (shared / "notes.txt").touch()
    for name in ("new/run", "hydra", "shared"):
        run_dir = RunDir(tmp_path / name)
        run_dir.claim(resume=False)
        run_dir.release()
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("new/run", "hydra", "shared")}
    assert modes == {"new/run": 0o700, "hydra": 0o700, "shared": 0o755}


def test_what_is_refused_after_the_claim_leaves_no_folder_and_a_used_one_as_it_was(run_dir):
    run_dir.claim(resume=False)
    run_dir.give_up()
    assert not run_dir.path.parent.exists()
    run_dir.claim(resume=False)
    (run_dir.path / "metrics.csv").touch()
    run_dir.release()
    again = RunDir(run_dir.path)
    again.claim(resume=True, or_start=True)
    again.give_up()
    assert (run_dir.path / "metrics.csv").exists()


def test_a_claim_sweeps_what_a_killed_process_was_writing_and_nothing_else(run_dir):
    run_dir.path.mkdir(parents=True)
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead, living, other = f".summary.json.tmp{ended.pid}", f".summary.json.tmp{os.getpid()}", ".curves.png.tmp"
    for name in (dead, living, other):
        (run_dir.path / name).touch()
    run_dir.claim(resume=False)
    assert {living, other} <= {path.name for path in run_dir.path.iterdir()}
    assert not (run_dir.path / dead).exists()


def test_a_file_system_that_cannot_be_written_is_said_at_the_start(run_dir, monkeypatch):
    def refused(self, *args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("ada_lightning.run.run_lock.RunLock.acquire", refused)
    with pytest.raises(ValueError, match=r"my_run cannot be written .*Read-only.*run_dir=<folder>"):
        run_dir.claim(resume=False)


def test_why_a_run_could_not_go_on_writing_is_said_with_the_way_on(run_dir):
    run_dir.claim(resume=False)
    make_checkpoint(run_dir, "step_000010")
    read_only = OSError(errno.EROFS, "Read-only file system", str(run_dir.metrics_csv))
    assert "cannot be written any more" in run_dir.explain(read_only)
    assert "last checkpoint is step_000010; continue" in run_dir.explain(read_only)
    assert "ulimit -n" in run_dir.explain(OSError(errno.EMFILE, "Too many open files"))
    assert run_dir.explain(OSError(errno.EROFS, "Read-only file system", "/elsewhere/file")) == ""
    shutil.rmtree(run_dir.path)
    run_dir.release()
    gone = run_dir.explain(FileNotFoundError(errno.ENOENT, "No such file or directory", str(run_dir.metrics_csv)))
    assert "was deleted or moved while the run went on" in gone


@pytest.mark.parametrize("name", ["", ".", "..", "../../evil", "a/../b", "/tmp/x", "a//b", "a\nb"])
def test_a_name_that_leads_elsewhere_is_refused(name):
    assert "run_dir=<folder>" in name_problem(name)


def test_the_command_that_started_a_run_stands_in_its_settings(run_dir):
    run_dir.write_config(OmegaConf.create({"seed": 0}), "python train.py seed=0")
    assert run_dir.stored_command() == "python train.py seed=0"
    assert run_dir.stored_config() == {"seed": 0}
