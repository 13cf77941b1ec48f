"""A large data set is read by a process of its own, from which whoever asks afterwards finds the cache filled."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf

from ada_lightning.data import prompt_store, read_ahead
from ada_lightning.data.dataset import DatasetSource
from ada_lightning.programs import train
from ada_lightning.programs.start import begin_to_read
from ada_lightning.run.sweep import JobError

NUMBER = 30_000


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ADA_LIGHTNING_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(read_ahead, "_readers", [])
    return tmp_path / "cache" / "prompts"


def file_of(tmp_path, number=NUMBER):
    rows = {"question": [f"{i} + 1 = ?" for i in range(number)], "answer": [str(i + 1) for i in range(number)]}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


def source(file, **settings):
    return DatasetSource(file, num_heldout=10, seed=0, **settings)


def readers_end():
    return [reader.wait(60) for reader in read_ahead._readers]


def test_the_other_process_fills_the_cache_that_this_one_reads(tmp_path, monkeypatch):
    file = file_of(tmp_path)
    read_ahead.read_ahead(source(file, system_prompt="Be brief", answer_pattern="(.*)"))
    assert readers_end() == [0]
    monkeypatch.setattr(prompt_store, "_Index", lambda *_, **__: pytest.fail("the rows were read again"))
    prompts = source(file, system_prompt="Be brief", answer_pattern="(.*)").train_prompts()
    assert len(prompts) == NUMBER - 10
    assert prompts[0].messages[0]["content"] == "Be brief"


def test_a_held_out_set_of_its_own_is_read_too(tmp_path, cache):
    file = file_of(tmp_path)
    (tmp_path / "small.jsonl").write_text('{"question": "1 + 1 = ?", "answer": "2"}\n')
    read_ahead.read_ahead(source(tmp_path / "small.jsonl", heldout_path=str(file)))
    assert readers_end() == [0]
    assert len(list(cache.glob("*/index.arrow"))) == 1


def test_no_process_is_started_for_a_small_data_set(tmp_path):
    read_ahead.read_ahead(source(file_of(tmp_path, number=100)))
    assert read_ahead._readers == []


def test_what_is_wrong_with_the_rows_is_said_here_and_not_there(tmp_path, capfd):
    wrong = source(file_of(tmp_path), answer_column="nothing")
    read_ahead.read_ahead(wrong)
    assert readers_end() == [0]
    assert capfd.readouterr() == ("", "")
    with pytest.raises(ValueError, match="nothing"):
        wrong.train_prompts()


def test_the_other_process_ends_with_this_one_and_leaves_nothing_that_is_half_made(tmp_path, cache):
    """It waits for a lock here: whoever asked is gone before it begins to read."""
    import fcntl

    file = file_of(tmp_path)
    folder = source(file).train_prompts()._folder
    whole = folder.rename(folder.with_name("away"))
    program = f"""
import os, sys
from ada_lightning.data.dataset import DatasetSource
from ada_lightning.data.read_ahead import _readers, read_ahead
read_ahead(DatasetSource({str(file)!r}, num_heldout=10, seed=0))
print(_readers[0].pid, flush=True)
sys.stdin.read(1)
os._exit(9)
"""
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        asks = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        reader = int(asks.stdout.readline())
        assert is_alive(reader)
        asks.communicate(b"x", timeout=60)
        assert asks.returncode == 9
        end = time.monotonic() + 30
        while is_alive(reader) and time.monotonic() < end:
            time.sleep(0.05)
        assert not is_alive(reader)
    assert not folder.exists()
    assert whole.exists()


def is_alive(pid):
    try:
        os.kill(pid, 0)
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({}, 1),
        ({"_target_": "ada_lightning.data.reasoning_gym.ReasoningGymSource"}, 0),
        ({"path": "???"}, 0),
        ({"path": "nowhere.parquet"}, 0),
        ({"prompt_pattern": "("}, 0),
    ],
    ids=["large", "another source", "no path", "no file", "wrong"],
)
def test_a_program_begins_to_read_what_is_large_and_leaves_errors_to_the_check(tmp_path, change, number):
    target = "ada_lightning.data.dataset.DatasetSource"
    data = {"source": {"_target_": target, "path": str(file_of(tmp_path)), "num_heldout": 1, "seed": 0} | change}
    begin_to_read(OmegaConf.create(data))
    assert readers_end() == [0] * number


def test_a_run_begins_to_read_before_anything_is_imported_for_the_check(tmp_path, monkeypatch):
    done = []

    def check(cfg, is_sweep):
        done.append("checked")
        raise ValueError("refused")

    monkeypatch.setattr(train, "begin_to_read", lambda data: done.append(data))
    monkeypatch.setattr(train, "check", check)
    monkeypatch.setattr(train, "is_sweep", lambda: False)
    with pytest.raises(JobError, match="refused"):
        train.train(OmegaConf.create({"run_dir": str(tmp_path), "data": "its data", "logger": {}}))
    assert done == ["its data", "checked"]
