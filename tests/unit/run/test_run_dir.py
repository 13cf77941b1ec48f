import errno
import json
import os
import shutil
import subprocess
from contextlib import suppress
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


@pytest.mark.parametrize("used", ["config.yaml", "metrics.csv", "checkpoints"])
def test_fresh_start_in_a_used_folder_names_both_ways_out(run_dir, used):
    run_dir.claim(resume=False)
    (run_dir.path / "train.log").touch()  # a log file alone is no use
    run_dir.claim(resume=False)
    (run_dir.path / used).mkdir()
    with pytest.raises(
        ValueError, match=rf"{used}.*its own options and ckpt=last run_name=my_run.*run_name=<new name>"
    ):
        run_dir.claim(resume=False)


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_does_not_start_in_the_folder_of_a_sweep(run_dir, resume):
    run_dir.path.mkdir(parents=True)
    (run_dir.path / "multirun.yaml").touch()
    with pytest.raises(ValueError, match=r"that of a sweep; to continue it: .* -m and ckpt=auto run_name=my_run;"):
        run_dir.claim(resume=resume, or_start=resume)
    make_checkpoint(run_dir, "step_000010")  # as a run of before has it
    run_dir.claim(resume=True)


def test_a_resume_continues_from_the_link_or_the_highest_complete_step(run_dir):
    make_checkpoint(run_dir, "step_000030.tmp")
    with pytest.raises(ValueError, match="no complete checkpoint"):
        run_dir.claim(resume=True)
    for name in ("step_9", "step_000010", "step_000020", ".step_30.tmp1"):
        make_checkpoint(run_dir, name)
    run_dir.claim(resume=True)
    assert run_dir.last_checkpoint().name == "step_000020"
    last = run_dir.checkpoints / "last"
    for linked, expected in (("step_000005", "step_000020"), ("step_000010", "step_000010")):  # the first is not there
        last.unlink(missing_ok=True)
        last.symlink_to(linked)
        assert run_dir.last_checkpoint().name == expected


def test_settings_are_kept_resolved_with_their_command_and_a_resume_adds_what_differs(run_dir):
    file = run_dir.write_config(OmegaConf.create({"lr": "${ckpt}", "ckpt": None}), "python train.py lr=0")
    assert yaml.safe_load(file.read_text()) == {"lr": None, "ckpt": None}
    assert run_dir.stored_command() == "python train.py lr=0"
    names = [
        run_dir.write_config(OmegaConf.create({"lr": lr, "ckpt": ckpt})).name
        for lr, ckpt in ((None, "last"), (2, "last"), (2, None), (3, "last"))
    ]
    assert names == ["config.yaml", *["config-resumed-1.yaml"] * 2, "config-resumed-2.yaml"]
    assert run_dir.stored_config() == {"lr": 3, "ckpt": "last"}
    assert run_dir.stored_command() == ""
    assert yaml.safe_load(file.read_text()) == {"lr": None, "ckpt": None}


def test_a_summary_replaces_the_old_one_and_leaves_no_other_file(run_dir):
    run_dir.write_summary({"steps": 1})
    file = run_dir.write_summary({"steps": 2})
    assert json.loads(file.read_text()) == {"steps": 2}
    assert [path.name for path in run_dir.path.iterdir()] == ["summary.json"]
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


@pytest.mark.parametrize(
    ("path", "option", "title"),
    [
        ("runs/my_run", "run_name=my_run", "my_run"),
        ("runs/sweep/0", "run_name=sweep/0", "sweep/0"),
        ("/elsewhere/0", "run_dir=/elsewhere/0", "0"),
    ],
)
def test_a_folder_is_named_by_what_leads_to_it_on_the_command_line(run_dir, path, option, title):
    assert (RunDir(path).option, RunDir(path).title) == (option, title)


@pytest.mark.parametrize("call", ["mkdir", "open"])
@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        (PermissionError(errno.EACCES, "no"), r"may not write to the run folder .*run_dir=<folder>.*mkdir -p runs"),
        (OSError(errno.EROFS, "Read-only file system"), r"my_run cannot be written .*Read-only.*run_dir=<folder>"),
    ],
)
def test_a_folder_that_cannot_be_written_to_is_said_with_a_way_out(run_dir, monkeypatch, call, refusal, message):
    def refuse(path, *args, **kwargs):
        raise refusal

    monkeypatch.setattr(Path, call, refuse)
    with pytest.raises(ValueError, match=message):
        run_dir.claim(resume=False)


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


def test_why_a_run_could_not_go_on_writing_is_said_with_the_way_on(run_dir):
    run_dir.claim(resume=False)
    read_only = OSError(errno.EROFS, "Read-only file system", str(run_dir.metrics_csv))
    anew = "once the cause is mended, start with the same options and: ckpt=auto run_name=my_run"
    assert run_dir.explain(read_only).endswith(f"no checkpoint was written, so nothing can be continued; {anew}")
    make_checkpoint(run_dir, "step_000010")
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


def test_a_folder_that_is_lent_goes_unless_something_was_in_it_or_broke(tmp_path):
    for name in ("new", "broken", "old", "empty"):
        folder = RunDir(tmp_path / name)
        if name in ("old", "empty"):
            folder.path.mkdir()
        if name == "old":
            (folder.path / "kept").touch()
        with suppress(RuntimeError), folder.lent():
            (folder.path / "engine.log").write_text("started")
            (folder.path / "logs").mkdir()
            assert name in ("old", "empty") or folder.path.stat().st_mode & 0o777 == 0o700
            if name == "broken":
                raise RuntimeError("the engine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "old"]
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["kept"]
    assert (tmp_path / "broken" / "engine.log").exists()
