from __future__ import annotations

import pytest

from ada_lightning.callbacks.metrics_csv import MetricsCsv
from ada_lightning.callbacks.prompt_log import PromptLog, read_prompts
from ada_lightning.callbacks.response_log import ResponseLog, read_responses
from ada_lightning.run.files import allow_open_files, append_whole, is_disk_full
from ada_lightning.run.metrics_file import read_metrics
from tests.unit.callbacks.small_run import Policy, make_rollout
from tests.unit.full_disk import files_end_at


class Trainer:
    is_global_zero = True
    loggers = ()


def test_what_fits_is_appended_and_what_does_not_leaves_no_part(tmp_path):
    path = tmp_path / "log"
    assert append_whole(path, b"one\n") == 0
    with files_end_at(6), pytest.raises(OSError) as error:  # noqa: PT011 - the kind is compared below
        append_whole(path, b"second\n")
    assert is_disk_full(error.value)
    assert path.read_bytes() == b"one\n"
    assert append_whole(path, b"third\n") == 4
    assert path.read_bytes() == b"one\nthird\n"


def test_a_full_disk_is_known_behind_other_errors():
    other = RuntimeError("torch says something else")
    other.__cause__ = OSError(28, "No space left on device")
    assert is_disk_full(other)
    assert not is_disk_full(PermissionError(13, "no"))
    assert not is_disk_full(RuntimeError("no"))


@pytest.mark.parametrize("room", range(12))
def test_metrics_on_a_full_disk_keep_every_row(tmp_path, room):
    """A new row, a longer row, a new column: whatever has no room leaves the table as it was."""
    for write in ({"step": 2, "a": 2.5}, {"step": 1, "a": 123456.0}, {"step": 1, "a": 1.0, "b": 2.0}):
        folder = tmp_path / str(sorted(write.items()))
        logger = MetricsCsv(run_dir=folder)
        logger.log_metrics({"a": 0.5}, step=0)
        logger.log_metrics({"a": 1.5}, step=1)
        before = logger.path.read_bytes()
        with files_end_at(len(before) + room):
            try:
                logger.log_metrics({name: write[name] for name in write if name != "step"}, step=write["step"])
                was_written = True
            except OSError:
                was_written = False
        rows = read_metrics(logger.path)  # raises where a line is cut
        if not was_written:
            assert logger.path.read_bytes() == before
        assert [path.name for path in folder.iterdir()] == ["metrics.csv"]
        logger.log_metrics({"a": 9.0}, step=2)
        assert [row["step"] for row in read_metrics(logger.path)][: len(rows)] == [row["step"] for row in rows]
        assert read_metrics(logger.path)[-1]["a"] == 9.0


def test_prompts_on_a_full_disk_keep_whole_steps(tmp_path):
    log = PromptLog(run_dir=tmp_path)
    log.on_rollout_end(Trainer(), Policy(), make_rollout(0))
    size = log.path.stat().st_size
    with files_end_at(size + 70), pytest.raises(OSError) as error:  # noqa: PT011 - one of the step's two rows would fit
        log.on_rollout_end(Trainer(), Policy(), make_rollout(1))
    assert is_disk_full(error.value)
    assert log.path.stat().st_size == size
    log.on_rollout_end(Trainer(), Policy(), make_rollout(1))
    assert read_prompts(tmp_path).step.tolist() == [0, 0, 1, 1]


def test_responses_on_a_full_disk_leave_no_part_of_a_file(tmp_path):
    log = ResponseLog(run_dir=tmp_path, every_n_steps=1)
    log.on_rollout_end(Trainer(), Policy(), make_rollout(0))
    with files_end_at(100), pytest.raises(OSError):  # noqa: PT011 - pyarrow has its own
        log.on_rollout_end(Trainer(), Policy(), make_rollout(1))
    assert [path.name for path in (tmp_path / "responses" / "train").iterdir()] == ["step_000000.parquet"]
    assert set(read_responses(tmp_path, "train").step) == {0}


def test_too_few_open_files_are_refused_and_a_low_limit_is_raised(monkeypatch):
    limits = []
    monkeypatch.setattr("resource.setrlimit", lambda kind, values: limits.append(values))
    monkeypatch.setattr("resource.getrlimit", lambda kind: (64, 64))
    with pytest.raises(ValueError, match=r"may have 64 files open.*ulimit -n 4096"):
        allow_open_files()
    monkeypatch.setattr("resource.getrlimit", lambda kind: (64, 100_000))
    allow_open_files()
    assert limits == [(4096, 100_000)]
