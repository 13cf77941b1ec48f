import errno
import fcntl
import multiprocessing
import time
from pathlib import Path

import pytest

from ada_lightning.training.models.cache import MadeModel, prepare_once


def slow_build(folder: Path) -> None:
    with (folder.parent / "builds.txt").open("a") as log:
        log.write("built\n")
    (folder / "first").write_text("1")
    time.sleep(0.3)
    (folder / "second").write_text("2")


def test_processes_that_race_build_once_and_see_a_complete_folder(tmp_path):
    """And what a killed process left is not taken for the model."""
    left = tmp_path / "model.partial"
    left.mkdir()
    (left / "stale").write_text("half")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=prepare_once, args=(tmp_path / "model", slow_build)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    folder = prepare_once(tmp_path / "model", slow_build)
    assert (tmp_path / "builds.txt").read_text() == "built\n"
    assert sorted(file.name for file in folder.iterdir()) == ["first", "second"]


def test_failed_build_leaves_nothing_and_can_be_repeated_even_without_locks(tmp_path, monkeypatch):
    def broken(folder: Path) -> None:
        (folder / "first").write_text("half")
        raise OSError("disk full")

    def no_locks(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with pytest.raises(OSError, match="disk full"):
        prepare_once(tmp_path / "model", broken)
    assert [file.name for file in tmp_path.iterdir()] == ["model.lock"]
    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert (prepare_once(tmp_path / "model", slow_build) / "second").exists()


def test_argument_goes_before_environment_and_environment_before_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("ADA_LIGHTNING_CACHE", raising=False)
    assert MadeModel("m", None).folder == Path("/home/someone/.cache/ada_lightning/models/m")
    monkeypatch.setenv("ADA_LIGHTNING_CACHE", str(tmp_path / "env"))
    assert MadeModel("m", None).folder == tmp_path / "env" / "models" / "m"
    assert MadeModel("m", "~/here").folder == Path("/home/someone/here/models/m")


def test_cache_below_a_file_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"file/models cannot be written .* ADA_LIGHTNING_CACHE"):
        MadeModel("m", tmp_path / "file").check()
    MadeModel("m", tmp_path / "new").check()
