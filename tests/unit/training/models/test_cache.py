import errno
import fcntl
import multiprocessing
import time
from pathlib import Path

import pytest

from ada_lightning.training.models.cache import check_can_prepare, models_folder, prepare_once


def slow_build(folder: Path) -> None:
    with (folder.parent / "builds.txt").open("a") as log:
        log.write("built\n")
    (folder / "first").write_text("1")
    time.sleep(0.3)
    (folder / "second").write_text("2")


def test_second_call_does_not_build_again(tmp_path):
    for _ in range(2):
        folder = prepare_once(tmp_path / "model", slow_build)
    assert sorted(file.name for file in folder.iterdir()) == ["first", "second"]
    assert (tmp_path / "builds.txt").read_text() == "built\n"


def test_processes_that_race_build_once_and_see_a_complete_folder(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=prepare_once, args=(tmp_path / "model", slow_build)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert (tmp_path / "builds.txt").read_text() == "built\n"
    assert (tmp_path / "model" / "second").read_text() == "2"


def test_without_locks_a_folder_is_built_all_the_same(tmp_path, monkeypatch):
    def no_locks(file: object, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert (prepare_once(tmp_path / "model", slow_build) / "second").exists()


def test_failed_build_leaves_nothing_and_can_be_repeated(tmp_path):
    def broken(folder: Path) -> None:
        (folder / "first").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        prepare_once(tmp_path / "model", broken)
    assert [file.name for file in tmp_path.iterdir()] == ["model.lock"]
    assert (prepare_once(tmp_path / "model", slow_build) / "second").exists()


def test_what_a_killed_process_left_is_not_taken_for_the_model(tmp_path):
    left = tmp_path / "model.partial"
    left.mkdir()
    (left / "stale").write_text("half")
    folder = prepare_once(tmp_path / "model", slow_build)
    assert sorted(file.name for file in folder.iterdir()) == ["first", "second"]


def test_argument_goes_before_environment_and_environment_before_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("ADA_LIGHTNING_CACHE", raising=False)
    assert models_folder(None) == Path("/home/someone/.cache/ada_lightning/models")
    monkeypatch.setenv("ADA_LIGHTNING_CACHE", str(tmp_path / "env"))
    assert models_folder(None) == tmp_path / "env" / "models"
    assert models_folder("~/here") == Path("/home/someone/here/models")


def test_cache_below_a_file_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"file cannot be written .* ADA_LIGHTNING_CACHE"):
        check_can_prepare(tmp_path / "file" / "model")
    check_can_prepare(tmp_path / "new" / "model")
