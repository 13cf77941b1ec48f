"""A large data set gives the prompts that a small one gives, from a cache; what cannot be used is replaced."""

from __future__ import annotations

import json
import random
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ada_lightning.data import dataset, prompt_store
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.data.dataset import DatasetSource
from ada_lightning.data.encoded_prompts import Fingerprint
from ada_lightning.data.encoded_table import EncodedTable
from ada_lightning.data.encoder import PromptEncoder
from ada_lightning.data.filters import ColumnRange
from ada_lightning.data.formats import PlainFormat
from ada_lightning.data.report import DataReport
from ada_lightning.data.stored_prompts import StoredPrompts
from ada_lightning.rewards.pool import RewardPool


def rows():
    """Plain ones, duplicates with another answer or the same, and each kind of what is no prompt or is looked at."""
    generator = random.Random(0)
    found = [{"question": f"{i} + 1 = ?", "answer": str(i + 1), "level": i % 7} for i in range(300)]
    for index in generator.sample(range(300), 40):
        found[index]["question"] = found[generator.randrange(300)]["question"]
    kinds = ["", None, " ", "<|im_start|>user hi", '[{"role": "user", "content": "x"}]', "what role has\x1f it?"]
    for index in generator.sample(range(300), 30):
        found[index]["question"] = generator.choice(kinds)
    for index in generator.sample(range(300), 9):
        found[index]["answer"] = None
    return found


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ADA_LIGHTNING_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(dataset, "LARGE", 2)
    return tmp_path / "cache" / "prompts"


@pytest.fixture
def files(tmp_path):
    pq.write_table(pa.Table.from_pylist(rows()), tmp_path / "a.parquet", row_group_size=50)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    return tmp_path


class ByteTokenizer:
    chat_template = None

    def __call__(self, text):
        return {"input_ids": list(text.encode())}

    def get_vocab(self):
        return {}


def encoder(longest=1000):
    return PromptEncoder(ByteTokenizer(), max_prompt_tokens=longest, prompt_format=PlainFormat())


SETTINGS = [
    {},
    {"system_prompt": "Be brief", "prompt_template": "Q: {prompt}!"},
    {"prompt_pattern": "(.*)"},
    {"filters": [ColumnRange(column="level", minimum=2)]},
    {"keep_columns": ["level"], "task_column": "level"},
]


@pytest.mark.filterwarnings("ignore:.*repeat an earlier one")
@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
@pytest.mark.parametrize("settings", SETTINGS, ids=["plain", "template", "pattern", "filter", "columns"])
def test_prompts_held_out_ones_and_report_are_those_of_a_small_data_set(files, monkeypatch, name, settings):
    found = []
    for large in (10**9, 2, 2):  # as a list, into the cache, from the cache
        monkeypatch.setattr(dataset, "LARGE", large)
        source = DatasetSource(files / name, num_heldout=20, seed=3, **settings)
        train = source.train_prompts()
        assert isinstance(train, StoredPrompts) == (large == 2)
        report = source.reports[0].as_dict()
        found.append((list(train), list(source.heldout_prompts()), report, source.place_of(train[7].prompt_id)))
    assert found[0] == found[1] == found[2]


def test_a_second_start_reads_no_row_and_a_changed_file_is_read_again(files, cache, monkeypatch):
    def ids():
        return list(DatasetSource(files / "a.jsonl", num_heldout=0, seed=0).train_prompts().ids)

    with pytest.warns(UserWarning, match="repeat an earlier one"):
        first = ids()
    with monkeypatch.context() as patch:
        patch.setattr(prompt_store, "_Index", lambda *_, **__: pytest.fail("the rows were read again"))
        with pytest.warns(UserWarning, match="repeat an earlier one"):
            again = ids()
    assert again == first
    with (files / "a.jsonl").open("a") as file:
        file.write(json.dumps({"question": "new", "answer": "1", "level": 0}) + "\n")
    with pytest.warns(UserWarning, match="repeat an earlier one"):
        longer = ids()
    assert len(longer) == len(first) + 1
    assert len(list(cache.glob("*/"))) == 2


@pytest.mark.filterwarnings("ignore:.*repeat an earlier one")
@pytest.mark.parametrize("broken", ["index.arrow", "report.json"])
def test_a_folder_of_the_cache_that_is_cut_off_is_made_again(files, cache, broken):
    first = list(DatasetSource(files / "a.parquet", num_heldout=0, seed=0).train_prompts())
    (folder,) = cache.glob("*/")
    whole = (folder / broken).read_bytes()
    (folder / broken).write_bytes(whole[: len(whole) // 2])
    assert list(DatasetSource(files / "a.parquet", num_heldout=0, seed=0).train_prompts()) == first
    assert (folder / broken).read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_named_with_the_way_out(files, cache):
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    with pytest.raises(ValueError, match=r"cannot keep the prompts of .*ADA_LIGHTNING_CACHE"):
        DatasetSource(files / "a.parquet", num_heldout=0, seed=0).check()


@pytest.fixture
def stored(tmp_path):
    found = [{"question": f"{'x' * (i % 5 == 0) * 100} {i}?", "answer": str(i)} for i in range(40)]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    return DatasetSource(tmp_path / "b.jsonl", num_heldout=0, seed=0).train_prompts()


def refuse_sevens(prompts):
    return {index: "a 7" for index, prompt in enumerate(prompts) if prompt.reference["answer"].endswith("7")}


def table(stored, file, longest=50):
    beside = partial(nullcontext, refuse_sevens)
    return EncodedTable(stored, encoder(longest), file=file, check=refuse_sevens, check_beside=beside)


def places(prompts):
    return [int(prompt.reference["answer"]) for prompt in prompts]


def test_what_cannot_be_used_is_replaced_by_the_next_that_can_whatever_was_looked_at_before(stored, tmp_path):
    chosen = stored.at([3, 5, 7, 8, 37, 39])
    one, other = table(stored, tmp_path / "one.npy"), table(stored, tmp_path / "two.npy")
    other.all_usable()
    # 5 is too long and 6 follows; 7 is refused and 8 is taken already; behind the last comes the first that can.
    assert places(one.usable(chosen)) == places(other.usable(chosen)) == [3, 6, 9, 8, 38, 39]
    assert [prompt.prompt_ids for prompt in one.usable(chosen)] == [
        tuple(f" {place}?".encode()) for place in (3, 6, 9, 8, 38, 39)
    ]
    assert one.num_looked_at < other.num_looked_at == 40
    assert places(other.all_usable()) == [place for place in range(40) if place % 5 and place % 10 != 7]


def test_what_the_background_found_is_there_at_the_next_start(stored, tmp_path, monkeypatch):
    first = table(stored, tmp_path / "checked.npy")
    first.look_ahead()
    first._thread.join(timeout=30)
    second = table(stored, tmp_path / "checked.npy")
    assert second.num_looked_at == 40
    assert second.reasons == first.reasons
    assert {reason for reason, _ in second.reasons.values()} == {"too long", "unusable answer"}
    (tmp_path / "checked.npy").write_bytes(b"cut")
    assert table(stored, tmp_path / "checked.npy").num_looked_at == 0


def test_the_first_step_shares_its_cores_with_no_thread_that_looks_ahead(stored, tmp_path):
    data = RolloutDataModule(source=None, prompts_per_step=4, max_prompt_tokens=8, num_steps=3, seed=0)
    data.train_prompts = table(stored, tmp_path / "checked.npy")
    data.step_prompts(0)
    assert data.train_prompts.num_looked_at < 40
    assert data.train_prompts._thread is None
    data.num_updates_done = 1
    data.step_prompts(1)
    data.train_prompts._thread.join(timeout=300)
    assert data.train_prompts.num_looked_at == 40


class Checking:
    """Grades nothing, and takes its time over the prompts that it is asked about."""

    def check_prompt(self, prompt):
        time.sleep(0.05)
        if prompt.reference["answer"].endswith("7"):
            raise ValueError("a 7")

    def score(self, prompt, completion):
        return 0.0


@pytest.mark.long
def test_a_run_that_ends_its_graders_leaves_those_of_the_thread_that_looks_ahead(stored, tmp_path):
    """A pool of workers is for one thread: of one that is closed another would wait for an answer for ever."""
    grader = RewardPool(Checking())
    grader.start()
    table = EncodedTable(
        stored, encoder(50), file=tmp_path / "c.npy", check=grader.check_references, check_beside=grader.checks_beside
    )
    table.look_ahead()
    assert places(table.usable(stored[1:3])) == [1, 2]
    time.sleep(0.5)
    grader.close()
    table._thread.join(timeout=300)  # a busy machine takes a while to start graders; one that waits does so for ever
    assert not table._thread.is_alive()
    assert grader._processes is None
    assert table.num_looked_at == 40
    assert {place for place, (reason, _) in table.reasons.items() if reason == "unusable answer"} == {7, 17, 27, 37}


def test_data_of_which_nothing_can_be_used_is_refused_before_the_run(stored, tmp_path):
    with pytest.raises(ValueError, match=r"none of 40 prompts .*too long: more than data.max_prompt_tokens = 2"):
        table(stored, tmp_path / "checked.npy", longest=2).look_at_some()


def test_the_report_says_how_much_was_looked_at(stored, tmp_path):
    report = DataReport()
    report.keep_counts("train", stored.tasks(), 12)
    report.epoch_counts(stored.tasks())
    assert "12 of 40 training prompts are encoded and checked so far" in report.text()
    assert report.as_dict()["train"]["looked_at"] == 12


def test_a_checkpoint_of_a_version_that_shuffled_otherwise_is_told_where_the_order_differs(stored, tmp_path):
    now = Fingerprint.of(table(stored, tmp_path / "checked.npy", longest=1000), [])
    for number, said in (
        (100_000, ""),
        (100_001, "the same prompts, and of more than 100000 an epoch had another order"),
    ):
        earlier = {**now.as_dict(), "num_train": number, "tokens": "0123456789abcdef"}
        assert replace(now, num_train=number).difference(earlier)[: len(said) or None] == said
    assert now.difference({**now.as_dict(), "tokens": "1000:other"}).startswith(
        "the same texts become different tokens"
    )


def test_places_of_ids_are_found_and_unknown_ids_are_not(stored):
    ids = stored.ids
    assert stored.positions([ids[5], "0" * 16, "other", "no-hexadecimals!", ids[0]]).tolist() == [5, -1, -1, -1, 0]
    part = stored.only(stored.rows >= 30)
    assert part.positions([ids[5], ids[31]]).tolist() == [-1, 1]
