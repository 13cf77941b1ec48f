from __future__ import annotations

import os
import shutil

import pytest

from ada_lightning.run.checkpoints import CheckpointStore, Retention, write_manifest
from ada_lightning.run.run_dir import RunDir


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path / "checkpoints")


def write(store, version, content=b"x"):
    folder = store.unfinished(version)
    (folder / "policy").mkdir()
    (folder / "trainer.ckpt").write_bytes(content)
    write_manifest(folder, policy_version=version)
    return store.finish(folder)


def names(store):
    return sorted(path.name for path in store.folder.iterdir())


def test_a_copy_that_made_a_folder_of_the_link_goes_on(store):
    write(store, 10)
    link = store.folder / "last"
    link.unlink()
    shutil.copytree(store.folder / "step_000010", link)  # as cp -rL, scp -r and object stores do
    assert store.newest_good() == (store.folder / "step_000010", {})
    write(store, 20)
    assert store.newest_good() == (store.folder / "step_000020", {})
    store.prune(Retention(keep_last=1, keep_every=0), newest=20, updates_per_step=1)
    assert names(store) == ["last", "step_000020"]


def test_a_run_sets_damaged_ones_aside_and_says_so(tmp_path, capsys):
    run_dir = RunDir(tmp_path)
    store = CheckpointStore(run_dir.checkpoints)
    for version in (10, 20, 30):
        write(store, version)
    for version in (20, 30):
        (store.folder / f"step_{version:06d}" / "trainer.ckpt").write_bytes(b"y")
    good, damaged = store.newest_good()
    assert (good.name, [path.name for path in damaged]) == ("step_000010", ["step_000030", "step_000020"])
    assert run_dir.good_checkpoint().name == "step_000010"
    out = capsys.readouterr().out
    assert "damaged_step_000020" in out
    assert "continuing from step_000010" in out
    assert names(store) == ["damaged_step_000020", "damaged_step_000030", "last", "step_000010"]
    assert run_dir.last_checkpoint().name == "step_000010"  # although the link points to nothing
    (run_dir.checkpoints / "step_000010" / "trainer.ckpt").unlink()
    with pytest.raises(ValueError, match=r"no checkpoint .* can be read \(step_000010: trainer.ckpt is missing\)"):
        run_dir.good_checkpoint()


@pytest.mark.parametrize(
    ("written", "retention", "updates_per_step", "kept"),
    [(range(1, 8), Retention(keep_last=2, keep_every=3), 1, [3, 6, 7]),
     ((2, 4, 6, 8, 10), Retention(keep_last=1, keep_every=2), 2, [4, 8, 10])],
)  # fmt: skip
def test_the_rule_says_which_stay_in_rollout_steps(store, written, retention, updates_per_step, kept):
    for version in written:
        write(store, version)
        assert store.newest_good() == (store.pointed_at(), {})
        assert store.pointed_at().name == f"step_{version:06d}"
        store.prune(retention, newest=version, updates_per_step=updates_per_step)
    assert list(store.versions()) == kept


def test_what_a_lost_attempt_wrote_goes_and_never_the_one_just_written(store):
    for version in (10, 20, 30):
        write(store, version)
    write(store, 11)
    store.prune(Retention(keep_last=1, keep_every=0), newest=11, updates_per_step=1)
    assert list(store.versions()) == [11]
    assert store.pointed_at().name == "step_000011"


def test_a_version_written_again_replaces_the_old_one(store):
    write(store, 10, b"old")
    target = write(store, 10, b"new")
    assert (target / "trainer.ckpt").read_bytes() == b"new"
    store.prune(Retention(keep_last=1, keep_every=0), newest=10, updates_per_step=1)
    assert names(store) == ["last", "step_000010"]


class Killed(BaseException):
    """Ends a process at a system call."""


@pytest.fixture
def kill_at(monkeypatch):
    """Run something until its n-th system call that changes a name or deletes; whether it came so far."""

    def run(number, work):
        num_calls = 0

        def counted(function):
            def call(*args, **options):
                nonlocal num_calls
                num_calls += 1
                if num_calls == number:
                    raise Killed
                return function(*args, **options)

            return call

        with monkeypatch.context() as patch:
            for name in ("rename", "replace", "symlink", "unlink", "mkdir", "rmdir"):
                patch.setattr(os, name, counted(getattr(os, name)))
            patch.setattr(shutil, "rmtree", counted(shutil.rmtree))
            try:
                work()
            except Killed:
                return True
        return False

    return run


@pytest.mark.parametrize("is_copy", [False, True], ids=["link", "copied link"])
@pytest.mark.parametrize("version", [10, 20])
def test_a_kill_at_any_point_leaves_a_good_checkpoint_and_so_does_the_next_start(tmp_path, kill_at, version, is_copy):
    """Where version 10 is written again it is the old one or the new one that is found, and never neither."""
    number = 0
    is_killed = True
    while is_killed:
        number += 1
        store = CheckpointStore(tmp_path / str(number))
        write(store, 10, b"old")
        if is_copy:
            (store.folder / "last").unlink()
            shutil.copytree(store.folder / "step_000010", store.folder / "last")

        def again(store=store):
            write(store, version, b"new")
            store.prune(Retention(keep_last=1, keep_every=0), newest=version, updates_per_step=1)

        is_killed = kill_at(number, again)
        for _ in range(2):
            good, damaged = store.newest_good()
            assert good is not None, names(store)
            assert damaged == {}
            content = (good / "trainer.ckpt").read_bytes()
            assert content in ((b"old", b"new") if version == 10 else (b"new",) if "20" in good.name else (b"old",))
            store.unfinished(30)  # the next start, which is killed too
        write(store, 40)
        store.prune(Retention(keep_last=1, keep_every=0), newest=40, updates_per_step=1)
        assert names(store) == ["last", "step_000040"]
    assert number >= 8


@pytest.mark.parametrize(("last", "every"), [(0, 0), (1, -1)])
def test_numbers_out_of_range_are_refused(last, every):
    with pytest.raises(ValueError, match="keep_last >= 1 and keep_every >= 0"):
        Retention(keep_last=last, keep_every=every)


def test_a_last_that_leads_out_of_the_folder_is_not_followed(tmp_path, store):
    """A damaged checkpoint is renamed: a folder from somebody else must not choose which."""
    elsewhere = tmp_path / "mine"
    elsewhere.mkdir()
    store.folder.mkdir(exist_ok=True)
    link = store.folder / "last"
    link.unlink(missing_ok=True)
    link.symlink_to(elsewhere)
    assert store.pointed_at() is None
    assert elsewhere not in store.candidates()
