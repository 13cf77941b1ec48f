import json

import pytest

import callbacks.outbox
from callbacks.outbox import Outbox


@pytest.fixture
def outbox(tmp_path):
    return Outbox(tmp_path / "box" / "queue.jsonl", max_bytes=10_000)


def again(outbox, max_bytes=10_000):
    """The same queue, opened by another process."""
    return Outbox(outbox.path, max_bytes=max_bytes)


def numbers(outbox):
    return [record["n"] for record in outbox.read()[0]]


def test_records_come_out_in_order_and_once(outbox):
    for n in range(3):
        assert outbox.append({"n": n})
    records, end = outbox.read()
    outbox.append({"n": 3})
    outbox.commit(end)
    assert [record["n"] for record in records] == [0, 1, 2]
    assert numbers(again(outbox)) == [3]
    assert again(outbox).count() == 1


def test_what_was_not_taken_out_is_read_again(outbox):
    outbox.append({"n": 0})
    outbox.read()
    assert numbers(again(outbox)) == [0]


def test_file_empties_itself_when_everything_was_taken(outbox):
    outbox.append({"n": 0})
    assert not outbox.is_empty()
    outbox.commit(outbox.read()[1])
    assert outbox.is_empty()
    assert outbox.path.stat().st_size == 0
    outbox.append({"n": 1})
    assert numbers(outbox) == [1]


def test_kill_between_emptying_and_noting_it_loses_nothing(outbox):
    for n in range(3):
        outbox.append({"n": n})
    outbox.commit(outbox.path.read_bytes().index(b"\n") + 1)
    outbox.path.write_bytes(b"")  # and the position still says one record
    outbox.append({"n": 9})
    outbox.path.with_suffix(".position").write_text("99999\n")
    assert numbers(again(outbox)) == [9]


def test_a_position_left_by_such_a_kill_does_not_swallow_what_comes_later(outbox):
    """Nothing is read while the server is down, and so the file grows past the old position."""
    for number in range(20):
        outbox.append({"number": number})
    outbox._write_position(outbox.path.stat().st_size // 2)
    outbox.path.write_bytes(b"")
    later = Outbox(outbox.path, max_bytes=1_000_000)
    for number in range(20):
        later.append({"number": number})
    assert [record["number"] for record in later.read()[0]] == list(range(20))


def test_line_cut_by_a_kill_spoils_neither_its_neighbours(outbox):
    outbox.append({"n": 0})
    with outbox.path.open("ab") as file:
        file.write(b'{"n": 1, "te')
    assert numbers(outbox) == [0]
    resumed = again(outbox)
    resumed.append({"n": 2})
    assert numbers(resumed) == [0, 2]


def test_a_cut_line_alone_does_not_wait_for_ever(outbox):
    outbox.append({"n": 0})
    with outbox.path.open("ab") as file:
        file.write(b'{"n": 1, "te')
    outbox.commit(outbox.read()[1])
    assert outbox.is_empty()


def test_full_queue_takes_nothing_more(outbox):
    assert outbox.append({"n": "x" * 9000})
    assert not outbox.append({"n": "y" * 2000})
    assert outbox.append({"n": "z"})
    assert outbox.path.stat().st_size <= 10_000


def test_little_is_held_in_memory_at_once(outbox, monkeypatch):
    monkeypatch.setattr(callbacks.outbox, "READ_BYTES", 100)
    outbox.append({"n": 0, "text": "x" * 500})  # longer than a read
    for n in range(1, 20):
        outbox.append({"n": n})
    seen = []
    while not outbox.is_empty():
        records, end = outbox.read()
        assert len(records) < 12
        seen += [record["n"] for record in records]
        outbox.commit(end)
    assert seen == list(range(20))


def test_keep_replaces_what_waits_and_not_what_was_taken(outbox):
    for n in range(5):
        outbox.append({"n": n})
    outbox.commit(outbox.path.read_bytes().index(b"\n") + 1)
    outbox.keep(lambda record: record if record["n"] % 2 else None)
    outbox.append({"n": 7})
    assert numbers(again(outbox)) == [1, 3, 7]


def test_values_that_json_lacks_survive(outbox):
    outbox.append({"n": float("nan"), "path": outbox.path})
    (record,) = outbox.read()[0]
    assert record["n"] != record["n"]
    assert json.dumps(record["path"]) == json.dumps(str(outbox.path))


def test_two_processes_that_append_do_not_mix_their_lines(outbox):
    from concurrent.futures import ThreadPoolExecutor

    boxes = [again(outbox, max_bytes=10**7) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda box: [box.append({"n": n, "text": "x" * 1000}) for n in range(100)], boxes))
    assert sorted(numbers(again(outbox))) == sorted(list(range(100)) * 4)
