"""Prompts from streams: of the real ``datasets`` library, and of generators and iterators of one's own."""

from __future__ import annotations

import gc
import itertools
import json
import warnings
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ada_lightning.core.records import Belief, Prompt
from ada_lightning.data import prompt_stream, streaming
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.data.dataset import DatasetSource
from ada_lightning.data.filters import ColumnRange
from ada_lightning.data.formats import PlainFormat
from ada_lightning.data.hub import stream_dataset
from ada_lightning.data.mixture import MixtureSource
from ada_lightning.data.row_stream import RowStream, has_place
from ada_lightning.data.streaming import StreamingSource
from ada_lightning.methods.curriculum import ExpectedUsefulness, Learnability, UniformCurriculum
from ada_lightning.run.stopping import RunStoppedError
from tests.unit.scripted_run import NumberTokenizer

NUM_ROWS = 60


def rows_of_numbers(first=0, number=None):
    """Rows whose questions are numbers; without an end where none is given."""
    for index in itertools.count(first) if number is None else range(first, first + number):
        yield {"question": str(index), "answer": str(index), "level": index % 5}


class Counting:
    """An iterator that keeps its place by itself, and says how many rows it gave."""

    def __init__(self):
        self.next = self.num_given = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.next, self.num_given = self.next + 1, self.num_given + 1
        return next(rows_of_numbers(self.next - 1))

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


@pytest.fixture(autouse=True)
def _threads_of_datasets_end_at_once(monkeypatch):
    """``datasets`` sleeps for seconds when it has read several files at once to their end."""
    monkeypatch.setattr(datasets.config, "SLEEP_TIME_ON_THREADS_SHUTDOWN", 0)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same rows in JSON lines and in parquet, in three files each, of several blocks."""
    folder = tmp_path_factory.mktemp("rows")
    for part in range(3):
        rows = list(rows_of_numbers(20 * part, 20))
        (folder / f"{part}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{part}.parquet", row_group_size=7)
    return folder


def source(rows=None, *, path=None, num_heldout=0, **options):
    return StreamingSource(path, rows=rows, num_heldout=num_heldout, seed=0, **{"num_first": 4, **options})


def of_files(files, kind="jsonl", **options):
    return source(path=str(files / f"*.{kind}"), **options)


def opened(given, *, too_long=(), grader=None, curriculum=None, prompts_per_step=4):
    data = RolloutDataModule(
        source=given, prompts_per_step=prompts_per_step, max_prompt_tokens=8, num_steps=1000, seed=0,
        format=PlainFormat(), curriculum=curriculum,
    )  # fmt: skip
    data.encode_prompts(NumberTokenizer(too_long), grader)
    return data


def numbers(prompts):
    return [int(prompt.messages[-1]["content"]) for prompt in prompts]


def taken(data, steps):
    """Take the prompts of some steps one after another, each of which is done before the next."""
    found = []
    for step in steps:
        found.append(sorted(numbers(data.step_prompts(step))))
        data.note_updates_done(step + 1)
    return found


def checkpoint(data):
    return json.loads(json.dumps(data.state_dict()))  # so it holds nothing but primitives


def all_rows(stream):
    return [int(row[1]["question"]) for row in iter(stream.take, None)]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_rows_of_a_streamed_data_set_become_the_prompts_that_files_give(files, kind):
    options = {
        "answer_pattern": "(.*)",
        "prompt_template": "{prompt}",
        "filters": [ColumnRange(column="level", minimum=1)],
    }
    stream = of_files(files, kind, **options)
    streamed = [prompt for _, prompt in iter(stream.next_prompt, None) if prompt]
    listed = DatasetSource(str(files / f"*.{kind}"), num_heldout=0, seed=0, **options)
    assert streamed == list(listed.train_prompts())
    assert stream.report.as_dict() == listed.reports[0].as_dict()
    assert stream.report.dropped == {"not 1 <= level": 12}


def test_lines_are_read_as_files_are_whatever_datasets_makes_of_their_values(tmp_path):
    """``datasets`` makes times of the dates (``findings/datasets_json_turns_dates_into_times.sh``)."""
    given = [{"question": "a", "answer": "2024-01-31"}, {"question": "b", "answer": "2024-02-01", "level": None}]
    (tmp_path / "dates.jsonl").write_text("\ufeff" + "\n\n".join(map(json.dumps, given)) + "\r\n")
    (tmp_path / "mixed.jsonl").write_text('{"question": "c", "answer": 1}\n{"question": "d", "answer": "one"}')
    for name, answers in (("dates", ["2024-01-31", "2024-02-01"]), ("mixed", [1, "one"])):
        path = str(tmp_path / f"{name}.jsonl")
        stream = source(path=path)
        streamed = [prompt for _, prompt in iter(stream.next_prompt, None)]
        assert [prompt.reference["answer"] for prompt in streamed] == answers
        assert streamed == list(DatasetSource(path, num_heldout=0, seed=0).train_prompts())


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(files):
    """Where a server gives the files, by HTTP."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(files))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("query", ["", "?download=true"])
def test_rows_of_a_server_are_those_of_its_files_and_their_place_is_found_again(files, address, kind, query):
    def rows():
        return source(path=[f"{address}/{part}.{kind}{query}" for part in range(3)]).rows

    assert all_rows(rows()) == all_rows(of_files(files, kind).rows)
    first, again = rows(), rows()
    before = [int(first.take()[1]["question"]) for _ in range(33)]
    first.note_place()
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert before + all_rows(again) == list(range(NUM_ROWS))


def test_an_address_that_gives_nothing_and_one_for_a_reader_of_files_are_told_with_the_way_out(files, address):
    with pytest.raises(
        ValueError, match=r"none\.jsonl \(split=train\): FileNotFoundError: .* Open the address from this"
    ):
        source(path=f"{address}/none.jsonl").check()
    with pytest.raises(ValueError, match=r"0\.jsonl is an address, and files are read from a disk: .* data=streaming"):
        DatasetSource(f"{address}/0.jsonl", num_heldout=0, seed=0)
    with pytest.raises(ValueError, match="names addresses and files of this machine; give one kind alone"):
        source(path=[f"{address}/0.jsonl", str(files / "1.jsonl")])
    with pytest.raises(ValueError, match=r"a stream reads files of one kind, which end in .*found \.csv"):
        source(path=f"{address}/0.csv").check()


@pytest.mark.parametrize("end", ["", "/", "/viewer/main/train", "?row=3", "/tree/main"])
@pytest.mark.parametrize("make", [source, DatasetSource])
def test_the_page_of_a_data_set_is_told_from_its_name(make, end):
    path = f"https://huggingface.co/datasets/openai/gsm8k{end}"
    with pytest.raises(ValueError, match=r"is the page of a data set: give its name, data\.source\.path=openai/gsm8k$"):
        make(path=path) if make is source else make(path, num_heldout=0, seed=0)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_state_of_datasets_finds_every_place_again_(files, kind):
    for num_taken in (0, 1, 6, 7, 8, 20, 33, NUM_ROWS - 1, NUM_ROWS):
        first = of_files(files, kind).rows
        before = [first.take() for _ in range(num_taken)]
        first.note_place()
        state = json.loads(json.dumps(first.state_dict()))
        assert state["num_since"] == 0
        again = of_files(files, kind).rows
        again.load_state_dict(state)
        assert [int(row[1]["question"]) for row in before] + all_rows(again) == list(range(NUM_ROWS))


def test_a_state_of_a_shuffled_data_set_gives_rows_twice_and_leaves_others_out(files):
    """Why a place among shuffled rows is found by counting: ``datasets`` as requirements/cpu.txt pins it."""
    made = [
        stream_dataset(
            "", name=None, revision=None, split="train", files=sorted(files.glob("*.parquet")), shuffle_buffer=20
        )
        for _ in range(2)
    ]  # fmt: skip
    before = [int(table.to_pylist()[0]["question"]) for table in itertools.islice(made[0].iter(1), 15)]
    made[1].load_state_dict(made[0].state_dict())
    after = [int(table.to_pylist()[0]["question"]) for table in made[1].iter(1)]
    assert set(before) & set(after)
    assert set(range(NUM_ROWS)) - set(before) - set(after)


def test_a_shuffle_is_that_of_datasets_by_the_seed_and_its_place_is_exact(files):
    options = {"shuffle_buffer": 20}
    theirs = datasets.load_dataset(
        "json", data_files=[str(files / f"{part}.jsonl") for part in range(3)], split="train", streaming=True
    ).shuffle(seed=0, buffer_size=20)  # fmt: skip
    whole = all_rows(of_files(files, **options).rows)
    assert sorted(whole) == list(range(NUM_ROWS)) != whole
    assert whole == [int(table.to_pylist()[0]["question"]) for table in theirs.with_format("arrow").iter(1)]
    assert whole != all_rows(StreamingSource(str(files / "*.jsonl"), num_heldout=0, seed=1, **options).rows)
    for num_taken in (1, 20, 45):
        first = of_files(files, **options).rows
        before = [int(first.take()[1]["question"]) for _ in range(num_taken)]
        first.note_place()
        again = of_files(files, **options).rows
        again.load_state_dict(first.state_dict())
        assert before + all_rows(again) == whole


def streams(files):
    return {
        "jsonl": lambda: of_files(files, num_heldout=3),
        "shuffled": lambda: of_files(files, "parquet", num_heldout=3, shuffle_buffer=20),
        "generator": lambda: source(rows_of_numbers(), num_heldout=3),
        "own state": lambda: source(Counting(), num_heldout=3),
    }


@pytest.mark.parametrize("name", ["jsonl", "shuffled", "generator", "own state"])
@pytest.mark.parametrize("curriculum", [UniformCurriculum, lambda: ExpectedUsefulness(usefulness=Learnability())])
def test_a_resumed_run_takes_the_prompts_of_one_that_never_stopped_and_none_twice(files, name, curriculum):
    recall = SimpleNamespace(updates=None)

    def begun():
        data = opened(streams(files)[name](), curriculum=curriculum(), prompts_per_step=3)
        data.connect(recall, recall=lambda asked: [belief_of(prompt) for prompt in asked])
        return data

    whole = begun()
    heldout = numbers(whole.heldout_prompts)
    all_taken = taken(whole, range(4))
    flat = [number for step in all_taken for number in step]
    assert len(set(flat)) == 12
    assert set(heldout).isdisjoint(flat)
    for num_done in range(1, 4):
        first = begun()
        assert taken(first, range(num_done)) == all_taken[:num_done]
        for is_begun in (False, True):  # a checkpoint between two steps, and one behind the choice of the next
            if is_begun:
                first.step_prompts(num_done)
            again = begun()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                again.load_state_dict(checkpoint(first))
            assert taken(again, range(num_done, 4)) == all_taken[num_done:]
            assert again.report.reading[0].as_dict() == whole.report.reading[0].as_dict()
            assert again.report.as_dict()["train"] == whole.report.as_dict()["train"]


def belief_of(prompt):
    return Belief(1.0 if prompt.prompt_ids[0] % 3 else 2.0, 2.0, is_seen=True)


def test_an_iterator_that_keeps_its_place_reads_only_what_came_since_the_last_step():
    first = opened(source(Counting()))
    taken(first, range(50))
    again = Counting()
    resumed = opened(source(again))
    num_at_start = again.num_given
    resumed.load_state_dict(checkpoint(first))
    assert again.num_given - num_at_start == 4
    assert taken(resumed, [50]) == [[200, 201, 202, 203]]


@pytest.mark.parametrize("make", [lambda first: source(rows_of_numbers(first)), lambda first: source(Shifted(first))])
def test_a_stream_that_gives_other_rows_than_before_is_told(make):
    first = opened(make(0))
    taken(first, range(3))
    state = checkpoint(first)
    with pytest.warns(RuntimeWarning, match=r"gives other rows than before: of the 12 rows .* again and differ"):
        opened(make(7)).load_state_dict(state)


class Shifted(Counting):
    """Whose rows are others than those of before, at the same places."""

    def __init__(self, shift):
        super().__init__()
        self.shift = shift

    def __next__(self):
        return {**super().__next__(), "shift": self.shift}


def test_a_stream_that_has_fewer_rows_than_before_is_told_and_one_kept_in_another_way_refused():
    first = opened(source(rows_of_numbers()))
    taken(first, range(3))
    state = checkpoint(first)
    with pytest.warns(RuntimeWarning, match="it ended after 6 of the 12 rows that this run has taken"):
        opened(source(rows_of_numbers(0, 6))).load_state_dict(state)
    with pytest.raises(ValueError, match="was kept by counting rows, and is to be kept as a state of the source; cont"):
        opened(source(Counting())).load_state_dict(state)
    with pytest.raises(ValueError, match=r"has taken 12 rows of rows_of_numbers, and 40 are read at its start now"):
        opened(source(rows_of_numbers(), num_first=40)).load_state_dict(state)


def test_nothing_of_a_stream_is_kept_once_its_steps_are_done():
    """However long it is: of 100 times as many rows there are as many prompts in memory, and as long a checkpoint."""
    data = opened(source(rows_of_numbers()), too_long=range(0, 10**6, 7))

    def kept(steps):
        taken(data, steps)
        gc.collect()
        num_prompts = sum(isinstance(each, Prompt) for each in gc.get_objects())
        return num_prompts, len(json.dumps(data.state_dict())), len(data.report.as_dict()["train"]["dropped_prompts"])

    few = kept(range(10))
    many = kept(range(10, 1000))
    assert data.source.rows.num_taken > 4000
    assert many[0] <= few[0] + 4
    assert many[1] <= few[1] + 60  # the same numbers with more digits
    assert many[2] == few[2] == 0
    assert data.source.report.dropped["too long"] > 600


def test_rows_that_cannot_be_used_are_dropped_and_counted_as_far_as_read():
    rows = [
        {"question": "1", "answer": "1"}, {"question": "", "answer": "1"}, {"question": "3", "answer": None},
        {"question": "4", "answer": "4", "image": b"."}, {"question": "4", "answer": "4"},
        {"question": "no number", "answer": "5"}, {"question": "5", "answer": "5"},
        {"question": "1", "answer": "1"}, {"question": "6", "answer": "6"}, {"question": "7", "answer": "7"},
    ]  # fmt: skip
    grader = SimpleNamespace(
        reward=None,
        check_references=lambda prompts: {i: "no" for i, p in enumerate(prompts) if p.reference["answer"] == "6"},
    )
    data = opened(source(rows, num_heldout=1, num_first=1), too_long=(5,), grader=grader, prompts_per_step=1)
    assert numbers(data.heldout_prompts) == [1]
    assert (numbers(data.step_prompts(0)), data.source.rows.num_taken) == ([4], 4)
    assert data.source.report.dropped == {"empty": 1, "unusable answer": 1}
    assert (
        "prompts to train on: 1\nprompts held out: 1\ndata: a stream, of which these are the first"
        in data.report.text()
    )
    assert numbers(data.step_prompts(1)) == [7]  # step 0 is not done: its prompt does not come again beside it
    assert data.source.report.dropped == {
        "empty": 1, "unusable answer": 2, "duplicates": 1, "refused by the chat template": 1, "too long": 1,
        "held out": 1,
    }  # fmt: skip
    assert data.source.report.notes == ["column 'image' holds bytes and is not given to the reward"]
    assert data.report.as_dict()["train"]["kept"] == 2


def test_held_out_prompts_may_be_a_data_set_of_their_own(files):
    data = opened(source(rows_of_numbers(), heldout_path=str(files / "0.jsonl"), num_heldout=None))
    assert sorted(numbers(data.heldout_prompts)) == list(range(20))
    assert taken(data, [0]) == [[20, 21, 22, 23]]
    assert [report.num_read for report in data.report.reading] == [24, 20]
    assert data.source.report.dropped == {"held out": 20}


def test_candidates_are_drawn_from_the_stream_and_those_passed_over_are_counted():
    data = opened(source(rows_of_numbers()), curriculum=ExpectedUsefulness(usefulness=Learnability(), revisit_ratio=0))
    data.connect(SimpleNamespace(), recall=lambda asked: [belief_of(prompt) for prompt in asked])
    for step in range(2):
        chosen = numbers(data.step_prompts(step))
        assert len(chosen) == 4
        assert all(16 * step <= number < 16 * (step + 1) and number % 3 == 0 for number in chosen)
    assert data.source.report.dropped == {"not chosen by the curriculum": 24}


def test_a_stream_that_ends_says_after_how_many_prompts_and_steps():
    data = opened(source(rows_of_numbers(0, 14), num_heldout=1))
    assert [data.is_over(step) for step in range(5)] == [False, False, False, True, True]
    assert data.said_of_end() == (
        "the stream rows_of_numbers has ended: its 14 rows had 13 usable prompts, enough for 3 steps. 1 are left over, "
        "and a step takes data.prompts_per_step = 4"
    )
    with pytest.raises(ValueError, match=r"has 3 usable prompts, fewer than data\.prompts_per_step = 4; use fewer in"):
        opened(source(rows_of_numbers(0, 3)))


def test_a_run_goes_on_where_the_stream_has_grown():
    first = opened(source(rows_of_numbers(0, 14)))
    assert taken(first, range(3)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert first.is_over(3)
    again = opened(source(rows_of_numbers(0, 16)))
    again.load_state_dict(checkpoint(first))
    assert not again.is_over(3)
    assert taken(again, [3]) == [[12, 13, 14, 15]]
    assert again.is_over(4)


def broken():
    yield from rows_of_numbers(0, 6)
    raise OSError("connection lost")


def test_what_is_wrong_with_rows_is_told_with_their_place(monkeypatch, files, tmp_path):
    with pytest.raises(ValueError, match="broken, row 6 cannot be read: OSError: connection lost"):
        opened(source(broken(), num_first=20))
    with pytest.raises(ValueError, match=r"list_iterator, row 0: a mapping with columns is needed, .* found int"):
        opened(source(iter([7])))
    with pytest.raises(ValueError, match="list holds no prompts; it needs at least one row"):
        opened(source([]))
    monkeypatch.setattr(streaming, "MOST_UNUSABLE", 50)
    monkeypatch.setattr(prompt_stream, "MOST_UNUSABLE", 50)
    never = [ColumnRange(column="level", minimum=9)]
    with pytest.raises(ValueError, match=r"(?s)none of the last 51 rows of rows_of_numbers can be.*not 9 <= level 51"):
        opened(source(rows_of_numbers(), filters=never))
    with pytest.raises(ValueError, match=r"(?s)none of the last 51 rows .*too long 51"):
        opened(source(rows_of_numbers()), too_long=range(100))
    empty = source([{"question": "a", "answer": None}] * 7, num_heldout=3)
    with pytest.raises(ValueError, match=r"(?s)none of the last 7 rows .* can be used:.*unusable answer 7"):
        empty.heldout_prompts()
    with pytest.raises(ValueError, match=r"num_heldout = 9, but rows_of_numbers ends after 5 prompts; hold out fewer"):
        source(rows_of_numbers(0, 5), num_heldout=9).heldout_prompts()
    (tmp_path / "a.csv").write_text("question,answer\n1,2\n")
    with pytest.raises(ValueError, match=r"a stream reads files of one kind, .*; found \.csv; data=dataset"):
        source(path=tmp_path / "a.csv").check()
    with pytest.raises(ValueError, match=r"found \.jsonl, \.parquet; data=dataset"):
        source(path=[str(files / "0.jsonl"), str(files / "0.parquet")]).check()
    with pytest.raises(ValueError, match=r"0\.jsonl, row 0: no column 'text'; columns found: answer, level, question"):
        source(path=files / "0.jsonl", prompt_column="text").check()


def repeated(number):
    for index in itertools.count():
        yield {"question": str(index % number), "answer": str(index % number)}


def test_a_stream_that_repeats_too_few_prompts_for_ever_is_told_with_the_way_out(monkeypatch):
    monkeypatch.setattr(streaming, "MOST_UNUSABLE", 50)
    monkeypatch.setattr(prompt_stream, "MOST_UNUSABLE", 50)
    few = r"num_heldout = 9, but repeated gives 51 rows without a new prompt after 8 prompts; hold out fewer: .*path=<p"
    with pytest.raises(ValueError, match=few):
        source(repeated(8), num_heldout=9).heldout_prompts()
    fewer = r"hold out fewer \(data\.source\.num_heldout\) or read fewer at once \(data\.source\.num_first, data\.prom"
    with pytest.raises(ValueError, match=rf"(?s)none of the last 51 rows of rep.*dropped: held out 51\n.*{fewer}"):
        opened(source(repeated(9), num_heldout=9))
    with pytest.raises(ValueError, match=rf"(?s)none of the last \d+ rows of repeated .*duplicates \d+.*{fewer}"):
        opened(source(repeated(5), num_heldout=2))
    data = opened(source(repeated(6)))
    assert sorted(numbers(data.step_prompts(0))) == [0, 1, 2, 3]
    with pytest.raises(RunStoppedError, match=rf"(?s)none of the last \d+ rows of rep.*duplicates \d+\n.*{fewer}"):
        data.step_prompts(1)  # step 0 is not done


def test_rows_are_too_many_only_behind_the_last_prompt_that_was_new(monkeypatch):
    monkeypatch.setattr(streaming, "MOST_UNUSABLE", 50)
    monkeypatch.setattr(prompt_stream, "MOST_UNUSABLE", 50)
    rare = [ColumnRange(column="level", minimum=4)]
    data = opened(source(rows_of_numbers(), filters=rare, num_heldout=20, num_first=20))  # 100 rows each
    assert (len(data.heldout_prompts), len(data.train_prompts)) == (20, 20)
    assert data.source.report.dropped == {"not 4 <= level": 160}
    repeats = source(itertools.chain(itertools.islice(repeated(2), 4), rows_of_numbers(5)), num_heldout=3)
    assert numbers(repeats.heldout_prompts()) == [0, 1, 5]
    assert repeats.report.dropped == {"duplicates": 2}
    with pytest.raises(ValueError, match=r"(?s)no row behind the held-out prompts of rows_of_num.*5 rows read"):
        opened(source(rows_of_numbers(0, 5), num_heldout=5))


def test_a_row_that_breaks_under_way_stops_the_run():
    rows = itertools.chain(rows_of_numbers(0, 150), broken())
    data = opened(source(rows, num_first=1), prompts_per_step=50)
    taken(data, range(3))
    with pytest.raises(RunStoppedError, match="chain, row 156 cannot be read: OSError: connection lost"):
        data.step_prompts(3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"either path, a data set, or rows, an iterator of your own; got None and None"),
        ({"path": "a.jsonl", "rows": [1]}, "either path, a data set, or rows"),
        ({"rows": 7}, r"rows must be something to iterate over .* my_module\.my_generator\}; got int"),
        ({"rows": rows_of_numbers}, "rows must be something to iterate over that gives rows, .*; got function"),
        ({"rows": [1], "shuffle_buffer": 9}, "shuffle_buffer = 9 is for data sets"),
        ({"path": "a.jsonl", "shuffle_buffer": 1}, "shuffle_buffer must be 0, for the order of the rows, or at"),
        ({"rows": [1], "num_first": 0}, "num_first must be at least 1; got 0"),
        ({"rows": [1], "num_heldout": None}, "num_heldout=null holds out all of heldout_path or heldout_split; name"),
        ({"rows": [1], "heldout_split": "test", "num_heldout": 1}, "heldout_split = 'test' belongs to a data set, and"),
    ],
)  # fmt: skip
def test_settings_of_a_stream_that_cannot_work_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        source(**options)


def test_what_needs_a_list_of_all_prompts_says_so():
    mixed = MixtureSource({"a": {"source": source(rows_of_numbers())}}, seed=0)
    with pytest.raises(ValueError, match=r"sources\.a: rows_of_numbers is a stream: its prompts come once each"):
        mixed.check()
    with pytest.raises(ValueError, match="is a stream: its prompts come once"):
        opened(source(rows_of_numbers())).distinct_prompts()


def test_states_that_no_checkpoint_can_hold_are_refused_at_the_start():
    class Keeping(Counting):
        def state_dict(self):
            return {"generator": object()}

    with pytest.raises(ValueError, match=r"its state_dict\(\) must return what JSON can hold, for checkpoints: Obj"):
        opened(source(Keeping()))
    assert has_place(Counting())
    assert not has_place(rows_of_numbers())
    assert RowStream([{"a": 1}], "rows").head(5) == [("rows, row 0", {"a": 1})]
