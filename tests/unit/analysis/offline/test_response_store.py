from __future__ import annotations

import errno
import fcntl
import json
from dataclasses import replace

import pytest

from ada_lightning.analysis.offline import JobSettings, ResponseStore
from ada_lightning.analysis.offline import response_store as module
from ada_lightning.analysis.offline.response_store import prompts_digest, weights_digest
from ada_lightning.core.episode import Episode, Turn
from ada_lightning.core.records import Outcome, Verdict
from ada_lightning.rollout.fixed_weights import DrawnPrompt
from tests.unit.analysis.offline.scripted_job import SETTINGS, make_prompts


def drawn(position, num_samples=2):
    prompt = make_prompts(position + 1)[position]
    draws = tuple(
        Outcome(f"é\n{index}", (7,) * 3, (-0.5,) * 3, index == 1, Verdict(0.5)) for index in range(num_samples)
    )
    return DrawnPrompt(position, prompt, draws)


@pytest.fixture
def store(tmp_path):
    store = ResponseStore(tmp_path / "job")
    store.claim(SETTINGS)
    yield store
    store.release()


def test_what_is_appended_comes_back_in_the_order_of_the_list(store):
    assert store.finished() == set()
    assert store.table().schema.equals(module.SCHEMA)
    store.append([drawn(3), drawn(0)])
    (store.folder / "responses" / ".part-00001.parquet.tmp4711").write_bytes(b"PAR1 half")  # of a killed process
    store.append([drawn(1)])
    assert store.finished() == {(0, "p0"), (1, "p1"), (3, "p3")}
    table = store.table(["position", "text", "is_truncated"])
    assert table.column_names == ["position", "text", "is_truncated"]
    assert table.to_pylist() == [
        {"position": position, "text": f"é\n{index}", "is_truncated": index == 1}
        for position in (0, 1, 3)
        for index in range(2)
    ]


def test_episodes_are_stored_with_their_turns(store):
    store.append([drawn(0)])
    episode = drawn(1, num_samples=1)
    turns = (Turn("calc: 1", "result: 1", num_calls=1), Turn("é"))
    turned = replace(episode.draws[0], episode=Episode(turns, (True,) * 3, "done"))
    store.append([replace(episode, draws=(turned,))])
    stored = store.table().column("turns").to_pylist()
    assert stored[:2] == [None, None]
    assert [(turn["text"], turn["reply"], turn["num_calls"]) for turn in json.loads(stored[2])] == [
        ("calc: 1", "result: 1", 1), ("é", "", 0),
    ]  # fmt: skip
    assert store.table(["position"]).column_names == ["position"]


def test_a_write_that_fails_half_way_leaves_nothing(store, monkeypatch):
    store.append([drawn(0)])

    def fail(table, where, **options):
        where.write_bytes(b"PAR1 and then the disk was full")
        raise OSError("no space left on device")

    monkeypatch.setattr(module.pq, "write_table", fail)
    with pytest.raises(OSError, match="no space"):
        store.append([drawn(1)])
    monkeypatch.undo()
    assert [file.name for file in (store.folder / "responses").iterdir()] == ["part-00000.parquet"]
    assert store.append([drawn(1)]).name == "part-00001.parquet"
    assert len(store.finished()) == 2


def test_a_damaged_part_is_named(store):
    part = store.append([drawn(0)])
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"part-00000\.parquet is damaged .* delete it"):
        store.finished()


def test_a_deleted_part_does_not_make_a_later_one_overwrite_another(store):
    for position in range(3):
        store.append([drawn(position)])
    store.parts[0].unlink()
    assert store.append([drawn(0)]).name == "part-00003.parquet"
    assert len(store.finished()) == 3
    store.append([drawn(0)])
    with pytest.raises(ValueError, match="has the same prompt twice"):
        store.table()


def test_two_processes_cannot_work_on_one_folder(store):
    with pytest.raises(ValueError, match=r"another process .* is running in .*run_name="):
        ResponseStore(store.folder).claim(SETTINGS)
    store.release()
    other = ResponseStore(store.folder)
    other.claim(SETTINGS)
    other.release()
    with pytest.raises(RuntimeError, match="not claimed"):
        other.append([drawn(0)])


def test_other_settings_are_refused_with_what_differs(store):
    store.release()
    values = {"model": {"path": "m", "weights": "v"}, "num_samples": 4, "reward": {"binary": True}}
    with pytest.raises(ValueError, match="drawn with other settings") as caught:
        store.claim(JobSettings(values))
    lines = str(caught.value).splitlines()
    assert lines[1:4] == [
        '  model.weights: "w" there, "v" now',
        "  num_samples: 8 there, 4 now",
        "  reward.binary: null there, true now",
    ]
    assert "choose a new folder: run_name=<new name>" in lines[4]
    store.claim(SETTINGS)  # a refused start has changed nothing


def test_settings_with_tuples_and_empty_mappings_equal_what_was_written(tmp_path):
    settings = JobSettings({"a": {}, "b": (1, 2), "c": {"d": None}})
    settings.check_same(tmp_path / "job.json")
    settings.check_same(tmp_path / "job.json")
    assert json.loads((tmp_path / "job.json").read_text()) == {"a": {}, "b": [1, 2], "c": {"d": None}}


def test_the_digest_of_prompts_sees_order_ids_and_tokens():
    prompts = make_prompts(3)
    others = [prompts[::-1], prompts[:2], [replace(prompts[0], prompt_ids=(9,)), *prompts[1:]]]
    others.append([replace(prompts[0], prompt_id="other"), *prompts[1:]])
    digests = [prompts_digest(list(other)) for other in [prompts, *others]]
    assert len(set(digests)) == len(digests)
    assert prompts_digest(make_prompts(3)) == digests[0]


def test_the_digest_of_weights_sees_a_change_anywhere(tmp_path):
    weights = bytearray(bytes(range(256)) * 4096 * 8)  # 8 MiB, so that blocks are 128 KiB apart
    file = tmp_path / "model.safetensors"
    digests = set()
    for where in (None, 0, len(weights) // 2 + 1, len(weights) - (1 << 17) + 5):
        changed = bytearray(weights)
        if where is not None:
            changed[where] ^= 1
        file.write_bytes(changed)
        digests.add(weights_digest(tmp_path))
    file.write_bytes(weights + b"x")
    assert len(digests | {weights_digest(tmp_path)}) == 5


def test_a_file_system_without_locks_is_no_other_process(tmp_path, monkeypatch):
    def no_locks(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    store = ResponseStore(tmp_path / "job")
    store.claim(SETTINGS)
    store.append([drawn(0)])
    assert store.finished() == {(0, "p0")}
    store.release()
