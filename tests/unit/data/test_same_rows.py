"""The same rows are the same prompts, whatever holds them."""

import csv
import datetime
import gzip
import json
import re
import shutil
import tempfile
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets.exceptions import DatasetsError
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from ada_lightning.data.answers import identity
from ada_lightning.data.dataset import DatasetSource

LIKE_JSON = ["007", "1.50", "null", "true", "[1]", "[1, 2]", '{"a": 1}', "-0", "1e5", "7", "7.0", "NaN", "a/b \u00e9"]
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], include_characters="\n"), min_size=1)


def is_quoted(text):
    """A text that is a JSON string itself is what ``datasets`` cannot tell from what is inside; nor can we."""
    try:
        return isinstance(json.loads(text), str)
    except ValueError:
        return False


texts = (st.sampled_from(LIKE_JSON) | words).filter(lambda text: not is_quoted(text))
dates = st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)).map(str)
moments = dates.map(lambda day: f"{day} 12:00:00")
whole = st.integers(-(2**62), 2**62)
floats = st.integers(-(10**6), 10**6).map(lambda number: number / 1000)
MISSING = object()
ANSWERS = [
    texts, whole, floats, dates, moments, whole | floats, whole | st.just(None), texts | st.just(MISSING),
    texts | st.integers(0, 99), texts | st.sampled_from([2**70, True, ["7"], ["1", "2"], {"a": 1}, None, 1e22]) | dates,
    st.sampled_from([2**70, 3]), texts.map(lambda text: [text]),
]  # fmt: skip
messages = texts.map(lambda text: [{"role": "system", "content": "S"}, {"role": "user", "content": text}])
in_parts = texts.map(lambda text: [{"role": "user", "content": [{"type": "text", "text": text}]}])
PROMPTS = [texts, messages, in_parts, messages | in_parts, texts | messages]
extras = st.sampled_from([MISSING, None, {"a": 1}, {"b": "x"}, {"a": {"c": [1, 2]}}, {"index": 3, "split": "train"}])


@st.composite
def data_sets(draw):
    """Rows of one layout, whose columns hold values of one kind or of several."""
    prompt, answer = draw(st.sampled_from(PROMPTS)), draw(st.sampled_from(ANSWERS))
    is_verl = draw(st.booleans())
    rows = []
    for index, asked in enumerate(draw(st.lists(prompt, min_size=1, max_size=6, unique_by=json.dumps))):
        row = {"index": index, "prompt": asked}
        given_answer, extra = draw(answer), draw(extras)
        if is_verl:
            row["reward_model"] = {"ground_truth": given_answer, "style": "rule"}
            if given_answer is MISSING:
                row["reward_model"] = {"style": "rule", "other": [1]}
        elif given_answer is not MISSING:
            row["answer"] = given_answer
        if extra is not MISSING:
            row["extra_info"] = extra
        rows.append(row)
    return rows


def as_lines(rows, path):
    path.write_text("\n".join(map(json.dumps, rows)))


def as_csv(rows, path):
    """Text as it stands, and what is none as JSON."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for row in rows:
            values = (row.get(name) for name in names)
            writer.writerow([v if isinstance(v, str) or v is None else json.dumps(v) for v in values])


def with_every_column(rows):
    """What takes a list of rows takes the columns of the first one."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [{**names, **row} for row in rows]


def with_pandas(rows, path):
    import pandas as pd

    pd.DataFrame(rows).to_parquet(path)


def loaded(rows, folder):
    import datasets

    as_lines(rows, folder / "rows.jsonl")
    return datasets.load_dataset(
        "json", data_files=str(folder / "rows.jsonl"), split="train", cache_dir=str(folder / "cache")
    )


def listed(rows):
    """As ``datasets`` stores rows, but for those of which it turns every value into text.

    ``findings/datasets_mixed_wide_integer.sh`` shows it.
    """
    import datasets

    answers = [row.get("answer") for row in rows]
    is_wide = any(isinstance(answer, int) and answer >= 2**64 for answer in answers)
    if is_wide and not all(type(answer) is int for answer in answers):
        raise OverflowError("datasets 5.2.0 encodes such a column twice")
    return datasets.Dataset.from_list(with_every_column(rows), on_mixed_types="use_json")


def shards(rows, folder, name, write):
    (folder / name).mkdir()
    for index, row in enumerate(rows):
        write([row], folder / name / f"train-{index:05}.{name}")
    return name


EXACT = {
    "rows.json": lambda rows, at: (at / "rows.json").write_text(json.dumps(rows)),
    "folder": lambda rows, at: ((at / "folder").mkdir(), as_lines(rows, at / "folder" / "a.jsonl")),
    "jsonl": lambda rows, at: shards(rows, at, "jsonl", as_lines),
    "parquet": lambda rows, at: shards(rows, at, "parquet", write_parquet),
    "ours.parquet": lambda rows, at: write_parquet(rows, at / "ours.parquet"),
}
"""Formats that hold every row as it is."""
TYPED = {
    "pandas.parquet": lambda rows, at: with_pandas(rows, at / "pandas.parquet"),
    "listed": lambda rows, at: listed(rows).save_to_disk(at / "listed"),
    "listed.parquet": lambda rows, at: listed(rows).to_parquet(at / "listed.parquet"),
    "loaded": lambda rows, at: loaded(rows, at).save_to_disk(at / "loaded"),
    "loaded.parquet": lambda rows, at: loaded(rows, at).to_parquet(at / "loaded.parquet"),
}
"""Formats whose writers turn values into others: a row may be refused, and must not be another."""


def write_parquet(rows, path):
    pq.write_table(pa.Table.from_pylist(with_every_column(rows)), path)


def read(path):
    """Prompts by the number of their row; what is said where none can be used."""
    source = DatasetSource(str(path), num_heldout=0, seed=0)
    try:
        found = source.train_prompts()
    except ValueError as error:
        return {}, str(error)
    [report] = source.reports
    return {
        int(prompt.reference["columns"]["index"]): (
            prompt.prompt_id, prompt.messages, identity(prompt.reference["answer"]),
        )
        for prompt in found
    }, "\n".join(report.lines())  # fmt: skip


def can_be_two_things(row):
    """A row that a writer may make unreadable: texts that read as JSON or times, numbers that floats do not hold."""
    answer = row.get("answer", row.get("reward_model", {}).get("ground_truth"))
    if any(type(value) is str and is_json_or_time(value) for value in (answer, row["prompt"])):
        return True
    if type(answer) in (int, float):
        return abs(answer) >= 2**53 or (type(answer) is float and answer.is_integer())
    return isinstance(answer, list)


def csv_can_say(answer):
    """Text, and numbers but 7.0, which is 7 where it is a number."""
    return type(answer) in (str, int) or (type(answer) is float and not answer.is_integer())


def is_json_or_time(text):
    try:
        json.loads(text)
    except ValueError:
        return re.match(r"\d{4}-\d\d-\d\d", text) is not None
    return True


@pytest.fixture(scope="module", autouse=True)
def _quiet(tmp_path_factory):
    import datasets

    datasets.disable_progress_bars()
    patched = pytest.MonkeyPatch()
    patched.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    patched.undo()


MIXED = [
    {"index": i, "prompt": f"q{i}", "answer": answer, "extra_info": {"a": i} if i % 2 else {"b": "x"}}
    for i, answer in enumerate([*LIKE_JSON, "word", 9, 1.5, True, None, ["7"], 1e22])
]
TURNS = [{"index": i, "prompt": [{"role": "user", "content": f"a\n{i}"}], "answer": str(i)} for i in range(3)]
TURNS[1]["prompt"][0]["content"] = [{"type": "text", "text": "a\n1"}]


@pytest.mark.long
@settings(max_examples=40, phases=[Phase.explicit, Phase.generate])  # nobody waits for data sets to shrink
@given(data_sets())
@example(MIXED)
@example(TURNS)
@example([{"index": i, "prompt": f"q{i}", "answer": f"2024-01-{i + 10}"} for i in range(3)])
@example([{"index": i, "prompt": f"q{i}", "answer": answer} for i, answer in enumerate([2**70, 3])])
def test_the_same_rows_are_the_same_prompts_in_every_format_or_refused(rows):
    folder = Path(tempfile.mkdtemp())
    try:
        as_lines(rows, folder / "expected.jsonl")
        expected, said = read(folder / "expected.jsonl")
        for name, write in {**EXACT, **TYPED}.items():
            try:
                write(rows, folder)
            except (ValueError, TypeError, OverflowError, NotImplementedError, pa.ArrowException, DatasetsError):
                continue  # the format cannot hold these rows
            found, said = read(folder / name)
            assert found.items() <= expected.items(), (name, said)
            if lost := set(expected) - set(found):
                assert name in TYPED, (name, said)
                assert all(can_be_two_things(rows[index]) for index in lost), (name, lost, said)
                assert "row " in said
        if all(csv_can_say(row.get("answer")) for row in rows):
            as_csv(rows, folder / "rows.csv")
            found, said = read(folder / "rows.csv")
            assert found == expected, said
    finally:
        shutil.rmtree(folder)


def test_a_stored_text_is_what_it_can_only_be_and_else_refused(tmp_path):
    """A column of JSON: what is a value and what was a text before it was stored looks the same."""
    folder = tmp_path / "saved"
    listed(MIXED).save_to_disk(folder)
    source = DatasetSource(str(folder), num_heldout=0, seed=0)
    answers = [prompt.reference["answer"] for prompt in source.train_prompts()]
    assert answers == ["007", "1.50", "null", "-0", "7", "NaN", "a/b \u00e9", "word", "9", "1.5"]
    [report] = source.reports
    assert report.dropped == {"unusable answer": len(MIXED) - len(answers)}
    refused = {kind.example for kind in report.kinds["unusable answer"].values()}
    assert (
        f"{folder} (split=train), row 3: column 'answer' holds 'true' in a column of JSON, where a text that looks so "
        "cannot be told from a truth value; give the files that it was made from, or store the answers as text"
        in refused
    )
    assert (
        report.changes["answers in a column of JSON may be numbers or texts of numbers, and are read as text"].count
        == 5
    )
    extra = [prompt.reference["columns"]["extra_info"] for prompt in source.train_prompts()]
    assert extra[:2] == [{"b": "x"}, {"a": 1}]


def test_texts_that_datasets_makes_times_of_are_refused_with_the_row(tmp_path):
    rows = [{"index": i, "prompt": f"q{i}", "answer": f"2024-01-{i + 10}"} for i in range(3)]
    loaded(rows, tmp_path).save_to_disk(tmp_path / "saved")
    found, said = read(tmp_path / "saved")
    assert found == {}
    assert "row 0: column 'answer' holds a point in time, 2024-01-10 00:00:00, which has no one spelling" in said


def test_parquet_files_of_a_folder_may_have_other_columns_and_slices_count_rows(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for index, extra in enumerate([{"a": 1}, {"b": ["x"]}, None]):
        write_parquet(
            [{"index": index, "prompt": f"q{index}", "answer": "1", "extra": extra}], folder / f"{index}.parquet"
        )
    assert set(read(folder)[0]) == {0, 1, 2}
    for split, kept in (
        ("train[:2]", {0, 1}),
        ("train[-1:]", {2}),
        ("train[:34%]", {0}),
        ("train[2:]+train[:1]", {0, 2}),
    ):
        source = DatasetSource(str(folder), num_heldout=0, seed=0, split=split)
        assert {int(prompt.reference["columns"]["index"]) for prompt in source.train_prompts()} == kept


def test_a_folder_is_read_as_its_files_are_unless_it_says_how(tmp_path):
    rows = [
        {"index": str(index), "prompt": f"q{index}", "answer": answer} for index, answer in enumerate(["007", "NA"])
    ]
    text = {",": "index,prompt,answer\n0,q0,007\n1,q1,NA\n"}
    text["\t"] = text[","].replace(",", "\t")
    text[";"] = text[","].replace(",", ";")
    for name, separator in (("csv", ","), ("tsv", "\t")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"train.{name}").write_text(text[separator])
    (tmp_path / "gz").mkdir()
    (tmp_path / "gz" / "train.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    as_lines(rows, tmp_path / "rows.jsonl")
    expected, _ = read(tmp_path / "rows.jsonl")
    assert [answer for _, _, answer in expected.values()] == ["007", "NA"]
    for name in ("csv", "tsv", "gz"):
        assert read(tmp_path / name)[0] == expected, name
    (tmp_path / "gz" / "test.jsonl").write_text(json.dumps({"index": 2, "prompt": "q2", "answer": "1"}))
    every = DatasetSource(str(tmp_path / "gz"), num_heldout=0, seed=0, split="all").train_prompts()
    assert len(every) == 3
    (tmp_path / "said").mkdir()
    (tmp_path / "said" / "rows.csv").write_text(text[";"])
    (tmp_path / "said" / "README.md").write_text(
        '---\nconfigs:\n- config_name: default\n  data_files: rows.csv\n  sep: ";"\n---\n'
    )
    assert set(read(tmp_path / "said")[0]) == {0}  # pandas takes NA for nothing


def test_a_folder_that_cannot_be_read_is_told_a_glob_that_finds_its_files(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl.gz").write_bytes(gzip.compress(b'{"prompt": "q", "answer": "1"}'))
    with pytest.raises(ValueError, match=r"Unrecognized instruction format") as error:
        DatasetSource(str(tmp_path), num_heldout=0, seed=0, split="train[:x]").check()
    found = re.search(r"A glob \(data\.source\.path=(.+)\) reads", str(error.value))
    assert len(DatasetSource(found[1], num_heldout=0, seed=0).train_prompts()) == 1
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"contain any data files$"):
        DatasetSource(str(tmp_path / "empty"), num_heldout=0, seed=0).check()
