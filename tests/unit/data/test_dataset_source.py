import csv
import datetime
import decimal
import gzip
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ada_lightning.data.dataset import DatasetSource
from ada_lightning.data.filters import ColumnIn, ColumnRange
from tests.builders import jsonl_source

ROOT = Path(__file__).parents[3]
ROWS = [{"prompt": f"{i} + 1 =", "answer": str(i + 1), "level": i} for i in range(6)]


def jsonl(path, rows=ROWS):
    text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def csv_file(path, rows=ROWS):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writeheader()
        writer.writerows(rows)
    return path


def arrow(path):
    table = pa.Table.from_pylist(ROWS)
    opened = pa.ipc.new_stream if path.suffix == ".arrow" else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as sink, opened(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


WRITERS = {
    "a.jsonl": jsonl,
    "a.jsonl.gz": jsonl,
    "a.json": lambda path: path.write_text(json.dumps(ROWS, indent=1)),
    "lines.json": jsonl,
    "a.csv": csv_file,
    "a.tsv": csv_file,
    "a.parquet": lambda path: pq.write_table(pa.Table.from_pylist(ROWS), path),
    "a.arrow": arrow,
    "a.feather": arrow,
}


def source(path, **options):
    return DatasetSource(path, **{"num_heldout": 0, "seed": 0, **options})


def parquet(path, rows):
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


def contents(prompts):
    return [prompt.messages[-1]["content"] for prompt in prompts]


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_gives_the_same_prompts_and_ids(tmp_path, name):
    WRITERS[name](tmp_path / name)
    prompts = source(str(tmp_path / name)).train_prompts()
    expected = jsonl_source(jsonl(tmp_path / "expected.jsonl"), num_heldout=0, seed=0).train_prompts()
    assert contents(prompts) == contents(expected)
    assert [prompt.prompt_id for prompt in prompts] == [prompt.prompt_id for prompt in expected]
    assert [prompt.reference["answer"] for prompt in prompts] == [row["answer"] for row in ROWS]
    assert float(prompts[3].reference["columns"]["level"]) == 3
    assert {prompt.task for prompt in prompts} == {"dataset"}


def test_the_id_of_json_lines_is_the_one_that_histories_are_keyed_by(tmp_path):
    [prompt] = source(jsonl(tmp_path / "a.jsonl", [{"prompt": "1 + 1 =", "answer": "2"}])).train_prompts()
    # made by the first version of data=jsonl: sha256 of ["jsonl", "1 + 1 =", "2"]
    assert prompt.prompt_id == "8a940c5a8fe0bd95"


def test_several_files_and_globs_are_read_in_order(tmp_path):
    jsonl(tmp_path / "b.jsonl", ROWS[2:4])
    jsonl(tmp_path / "a.jsonl", ROWS[:2])
    csv_file(tmp_path / "c.csv", ROWS[4:])
    both = source([f"{tmp_path}/c.csv", f"{tmp_path}/*.jsonl"])
    assert contents(both.train_prompts()) == [ROWS[i]["prompt"] for i in (4, 5, 0, 1, 2, 3)]
    with pytest.raises(ValueError, match=r"no file matches data\.source\.path = .*\*\.json "):
        source(f"{tmp_path}/*.json").check()


def test_text_of_a_csv_file_stays_as_it_stands(tmp_path):
    rows = [{"prompt": "a, or\nb?", "answer": "007"}, {"prompt": "c", "answer": "NA"}, {"prompt": "d", "answer": ""}]
    made = source(csv_file(tmp_path / "a.csv", rows))
    assert [(p.messages[0]["content"], p.reference["answer"]) for p in made.train_prompts()] == [
        ("a, or\nb?", "007"),
        ("c", "NA"),
    ]
    assert made.reports[0].examples["unusable answer"] == [
        f"{tmp_path}/a.csv, line 5: column 'answer' must be text or a number; found nothing"
    ]


VERL = {
    "data_source": "numina_math",
    "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1 ="}],
    "ability": "math",
    "reward_model": {"style": "rule", "ground_truth": "2"},
    "extra_info": {"split": "train", "index": 7},
}
SAY_TWO = [{"role": "user", "content": "Say 2"}, {"role": "assistant", "content": "2"}]


def test_the_layout_of_verl_loads_as_it_is(tmp_path):
    made = source(parquet(tmp_path / "a.parquet", [VERL]))
    [prompt] = made.train_prompts()
    assert prompt.messages == tuple(VERL["prompt"])
    assert prompt.task == "numina_math"
    assert prompt.reference == {"answer": "2", "columns": {k: v for k, v in VERL.items() if k != "prompt"}}
    assert made.reports[0].layout == (
        "layout verl: prompt from 'prompt', answer from 'reward_model.ground_truth', task from 'data_source'"
    )
    assert pickle.loads(pickle.dumps(prompt)) == prompt


@pytest.mark.parametrize(
    ("row", "turns", "answer", "layout"),
    [
        ({"prompt": "Say 2", "solution": "2"}, 1, "2", "prompt and solution"),
        ({"prompt": SAY_TWO[:1], "answer": 2, "solution": "because"}, 1, 2, "prompt and answer"),
        ({"prompt": "Say 2", "completion": "2"}, 1, "2", "TRL (prompt and completion)"),
        ({"prompt": SAY_TWO[:1], "completion": SAY_TWO[1:]}, 1, "2", "TRL (prompt and completion)"),
        ({"messages": SAY_TWO}, 1, "2", "TRL (messages)"),
        ({"messages": [*SAY_TWO, *SAY_TWO]}, 3, "2", "TRL (messages)"),
        ({"problem": "Say 2", "solution": "because", "answer": "2"}, 1, "2", "problem and answer"),
    ],
)
def test_layouts_of_trl_and_of_sets_of_problems(tmp_path, row, turns, answer, layout):
    made = source(parquet(tmp_path / "a.parquet", [row]))
    [prompt] = made.train_prompts()
    assert [turn["role"] for turn in prompt.messages] == ["user", "assistant", "user"][:turns]
    assert prompt.messages[-1] == {"role": "user", "content": "Say 2"}
    assert prompt.reference["answer"] == answer
    assert made.reports[0].layout.startswith(f"layout {layout}:")


def test_a_prompt_needs_no_answer_where_the_reward_needs_none(tmp_path):
    path = parquet(tmp_path / "a.parquet", [{"prompt": "Say 2", "tests": ["x"]}])
    with pytest.raises(ValueError, match=r"row 0: no column looks like an answer; columns found: prompt, tests; set"):
        source(path).check()
    [prompt] = source(path, needs_answer=False).train_prompts()
    assert prompt.reference == {"columns": {"tests": ["x"]}}
    [prompt] = source(path, needs_answer=False, answer_column="tests").train_prompts()
    assert prompt.reference["answer"] == ["x"]


def test_configured_columns_win_over_the_layout(tmp_path):
    rows = [{**VERL, "extra_info": {"question": "2 + 2 =", "final": ["4"]}}]
    made = source(
        parquet(tmp_path / "a.parquet", rows),
        prompt_column="extra_info.question",
        answer_column="extra_info.final.0",
        task="sums",
    )
    [prompt] = made.train_prompts()
    assert (contents([prompt]), prompt.reference["answer"], prompt.task) == (["2 + 2 ="], "4", "sums")
    assert made.reports[0].layout.startswith("layout as configured")


def test_prompts_of_several_turns_have_ids_of_their_own(tmp_path):
    rows = [
        {"prompt": [{"role": "system", "content": "A"}, *SAY_TWO[:1]], "answer": "2"},
        {"prompt": [{"role": "system", "content": "B"}, *SAY_TWO[:1]], "answer": "2"},
        {"prompt": [*SAY_TWO, *SAY_TWO[:1]], "answer": "2"},
    ]
    prompts = source(parquet(tmp_path / "a.parquet", rows)).train_prompts()
    assert len({prompt.prompt_id for prompt in prompts}) == 3


def test_an_answer_is_taken_out_of_its_solution(tmp_path):
    rows = [{"question": "q", "answer": "Because.\n#### 42"}, {"question": "r", "answer": "no mark"}]
    made = source(jsonl(tmp_path / "a.jsonl", rows), answer_pattern=r"#### (.*)")
    assert [prompt.reference["answer"] for prompt in made.train_prompts()] == ["42"]
    [example] = made.reports[0].examples["unusable answer"]
    assert "line 2: data.source.answer_pattern = '#### (.*)' finds nothing in 'no mark'" in example


def test_every_dropped_row_is_counted_once_under_its_reason(tmp_path):
    rows = [
        *ROWS,
        {"prompt": ROWS[1]["prompt"], "answer": "other", "level": 1},
        {"prompt": "  ", "answer": "1", "level": 1},
        {"prompt": "x", "answer": None, "level": 1},
        {"prompt": "y", "answer": True, "level": 1},
        {"prompt": "\ud83d", "answer": "1", "level": 1},
        {"prompt": "z", "answer": "z", "level": None},
    ]
    filters = [ColumnRange(column="level", minimum=1, maximum=4), ColumnIn(column="level", values=[4], exclude=True)]
    made = source(jsonl(tmp_path / "a.jsonl", rows), filters=filters)
    with pytest.warns(UserWarning, match="1 of 12 prompts in .* repeat an earlier one"):
        assert contents(made.train_prompts()) == [row["prompt"] for row in ROWS[1:4]]
    [report] = made.reports
    assert report.as_dict()["dropped"] == {
        "not 1 <= level <= 4": 3,
        "not level not in [4]": 1,
        "duplicates": 1,
        "empty": 1,
        "unusable answer": 2,
        "not Unicode": 1,
    }
    assert (report.num_read, report.num_kept) == (12, 3)
    assert report.notes == ["1 of the duplicates have another answer; the first is kept"]


def test_what_is_not_json_like_is_turned_or_left_out_and_said(tmp_path):
    row = {"prompt": "a", "answer": 1.5, "day": datetime.date(2025, 1, 31), "image": {"bytes": b"x", "path": None}}
    path = parquet(tmp_path / "a.parquet", [row])
    made = source(path)
    [prompt] = made.train_prompts()
    assert prompt.reference == {"answer": 1.5, "columns": {"answer": 1.5, "day": "2025-01-31"}}
    assert made.reports[0].notes == ["column 'image' holds bytes and is not given to the reward"]
    with pytest.raises(ValueError, match=r"row 0: column 'image' holds bytes.*keep_columns"):
        source(path, keep_columns=["image"]).check()
    rows = [{"prompt": "a", "answer": decimal.Decimal("0.50")}, {"prompt": "b", "answer": None}]
    [prompt] = source(parquet(tmp_path / "b.parquet", rows)).train_prompts()
    assert prompt.reference["answer"] == "0.50"
    with pytest.raises(ValueError, match="column 'answer' holds bytes, which reward workers cannot be given"):
        source(parquet(tmp_path / "c.parquet", [{"prompt": "a", "answer": b"2"}])).check()


def test_empty_answers_on_top_of_a_file_do_not_choose_the_column(tmp_path):
    """NuminaMath has worked solutions beside answers, some of them null."""
    rows = [
        {"problem": "a", "solution": "so 1", "answer": None},
        {"problem": "b", "solution": "so 2", "answer": "2"},
        {"problem": "c", "solution": None, "answer": "3"},
    ]
    made = source(jsonl(tmp_path / "a.jsonl", rows))
    assert [prompt.reference["answer"] for prompt in made.train_prompts()] == ["2", "3"]
    assert made.reports[0].dropped == {"unusable answer": 1}
    solutions = [row | {"answer": None} for row in rows[:2]]
    made = source(jsonl(tmp_path / "b.jsonl", solutions))
    assert [prompt.reference["answer"] for prompt in made.train_prompts()] == ["so 1", "so 2"]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"text": "a", "label": "b"}], {}, "line 1: no column looks like a prompt; columns found: label, text; set"),
        # also those that would not be read
        ([{"text": "a", "label": "b"}], {"keep_columns": []}, "looks like a prompt; columns found: label, text; set"),
        (ROWS, {"prompt_column": "q"}, "line 1: no column 'q'; columns found: answer, level, prompt; set .*prompt_col"),
        (ROWS, {"answer_column": "a.b"}, "no column 'a.b'; columns found: .*; set data.source.answer_column"),
        (ROWS, {"keep_columns": ["x"]}, "no column 'x' of data.source.keep_columns"),
        (
            ROWS,
            {"filters": [ColumnRange(column="l", minimum=1)]},
            "line 1: data.source.filters: no column 'l'; columns",
        ),
        (ROWS, {"filters": [ColumnRange(column="prompt", minimum=1)]}, "'prompt' must be a number for 1 <= prompt; f"),
        (
            [{"prompt": "a", "answer": ["1", "2"]}],
            {},
            "none of the 1 rows is usable(.|\n)*found list of 2; if one of them is the answer, name it with "
            "data.source.answer_column=answer.0 or answer.<key or index>; needs_answer=false is for a reward that",
        ),
        ([{"prompt": "a", "answer": "b"}, "{"], {}, "line 2: not valid JSON at column 2"),
        ([*ROWS, {"prompt": "a"}], {"skip_invalid": False}, "line 7: no column 'answer'; columns found: prompt"),
        (
            [{"messages": SAY_TWO}, {"messages": SAY_TWO[:1]}],
            {"skip_invalid": False},
            "line 2: no answer: the last turn",
        ),
        ([], {}, "holds no prompts; it needs at least one row"),
        ([{"prompt": [{"role": "user", "content": [{"type": "image"}]}], "answer": "1"}], {}, "not text: image"),
    ],
)
def test_check_says_what_is_wrong_and_where(tmp_path, rows, options, message):
    with pytest.raises(ValueError, match=message):
        source(jsonl(tmp_path / "a.jsonl", rows), **options).check()


def test_files_that_cannot_be_read_are_named(tmp_path):
    for name in ("a.parquet", "a.arrow", "a.jsonl.gz", "a.json", "a.csv"):
        (tmp_path / name).write_bytes(b"\xff\xfe nothing of the kind\n")
        with pytest.raises(ValueError, match=name.replace(".", r"\.")):
            source(str(tmp_path / name)).check()
    with pytest.raises(ValueError, match=r"cannot read prompts from .*none\.parquet"):
        source(str(tmp_path / "none.parquet")).check()
    (tmp_path / "a.json").write_text('{"data": [{"prompt": "a"}]}')
    with pytest.raises(ValueError, match=r"one JSON object with the keys data; a list of objects is needed"):
        source(str(tmp_path / "a.json")).check()
    (tmp_path / "a.csv").write_text("prompt,answer\na,1\nb,2,3\n")
    with pytest.raises(ValueError, match=r"a\.csv, line 3: 3 fields for 2 columns"):
        source(str(tmp_path / "a.csv")).check()
    (tmp_path / "deep.jsonl").write_text('{"prompt": ' + "[" * 100_000)
    with pytest.raises(ValueError, match=r"deep\.jsonl, line 1: .* too deep"):
        source(str(tmp_path / "deep.jsonl")).check()
    whole = gzip.compress(json.dumps({"prompt": "a" * 999, "answer": "b"}).encode() * 99)
    (tmp_path / "b.jsonl.gz").write_bytes(whole[:40] + b"\xff" * 20 + whole[60:])
    with pytest.raises(ValueError, match=r"cannot read prompts from .*b\.jsonl\.gz"):
        source(str(tmp_path / "b.jsonl.gz")).check()


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_two_columns_of_one_name_are_refused(tmp_path, ending):
    table = pa.Table.from_arrays([pa.array(["q"]), pa.array(["1"]), pa.array(["2"])], ["prompt", "answer", "answer"])
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(ValueError, match="column names must be unique; found prompt, answer, answer"):
        source(str(path)).check()


def test_the_index_that_pandas_writes_into_a_csv_file_is_a_column_like_others(tmp_path):
    (tmp_path / "a.csv").write_text(",prompt,answer\n0,a,1\n")
    [prompt] = source(str(tmp_path / "a.csv")).train_prompts()
    assert prompt.reference == {"answer": "1", "columns": {"Unnamed: 0": "0", "answer": "1"}}


def test_a_csv_file_may_begin_with_blank_lines(tmp_path):
    (tmp_path / "a.csv").write_text("\n\nprompt,answer\na,1\n")
    assert contents(source(str(tmp_path / "a.csv")).train_prompts()) == ["a"]


@pytest.mark.parametrize(("answer", "is_usable"), [(10**400, True), (float("inf"), False), (float("nan"), False)])
def test_numbers_that_are_answers(tmp_path, answer, is_usable):
    made = source(jsonl(tmp_path / "a.jsonl", [{"prompt": "a", "answer": 1}, {"prompt": "b", "answer": answer}]))
    assert len(made.train_prompts()) == 1 + is_usable


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"path": []}, "data.source.path is empty"),
        ({"split": "test"}, "data.source.split = 'test' belongs to data sets of the hub.*a.jsonl is a file"),
        ({"revision": "main"}, "data.source.revision = 'main' belongs to"),
        ({"heldout_split": "test", "num_heldout": 1}, "data.source.heldout_split = 'test' belongs to data sets"),
        ({"heldout_split": "test", "num_heldout": 0}, "heldout_split = 'test' is given but num_heldout is 0"),
        ({"heldout_path": "b", "num_heldout": 0}, "heldout_path = 'b' is given but num_heldout is 0"),
        ({"num_heldout": -1}, "num_heldout must be at least 0; got -1"),
        ({"prompt_template": "no slot"}, "{prompt}; got 'no slot'"),
        ({"answer_column": "a", "prompt_column": "a"}, "are both 'a'"),
        ({"prompt_pattern": "("}, "prompt_pattern = '\\(' is no regular expression"),
        ({"answer_pattern": "x"}, "answer_pattern = 'x' needs a group"),
        (
            {"answer_pattern": 5},
            "data.source.answer_pattern must be text; got 5; write it in quotes: 'data.so",
        ),
        ({"system_prompt": False}, "system_prompt must be text; got False"),
        ({"answer_column": 1, "task": 2}, "answer_column must be text; got 1.*task must be text; got 2"),
        (
            {"filters": [{"column": "level", "minimum": 1}]},
            r"filters.0 is no filter: an object of the class dict has no method accepts\(columns\); write a _target_",
        ),
    ],
)
def test_impossible_settings_are_refused_at_construction(kwargs, message):
    with pytest.raises(ValueError, match=message):
        DatasetSource(**{"path": "a.jsonl", "num_heldout": 1, "seed": 0, **kwargs})


class OwnFilter:
    """Keeps what a function keeps."""

    def __init__(self, keeps):
        self.accepts = keeps


def test_a_filter_of_ones_own_needs_no_label_and_may_fail_in_every_way(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", ROWS)
    made = source(path, num_heldout=0, filters=[OwnFilter(lambda columns: columns["level"] > 1)])
    assert contents(made.train_prompts()) == [row["prompt"] for row in ROWS if row["level"] > 1]
    assert made.reports[0].as_dict()["dropped"] == {"not OwnFilter": sum(row["level"] <= 1 for row in ROWS)}
    for fails, said in (
        (lambda columns: columns["no"], "KeyError: 'no'"),
        (lambda columns: 1 / 0, "ZeroDivisionError: division by zero"),
    ):
        with pytest.raises(ValueError, match=rf"a.jsonl, line 1: the filter OwnFilter raised {said}"):
            source(path, filters=[OwnFilter(fails)]).train_prompts()


def test_all_prompts_of_a_set_of_its_own_can_be_held_out(tmp_path):
    train, heldout = jsonl(tmp_path / "a.jsonl", ROWS[:4]), jsonl(tmp_path / "b.jsonl", ROWS[3:])
    made = source(train, heldout_path=str(heldout), num_heldout=None)
    with pytest.warns(UserWarning, match="1 training prompts of .* occur in"):
        assert sorted(contents(made.heldout_prompts())) == [row["prompt"] for row in ROWS[3:]]
    assert contents(made.train_prompts()) == [row["prompt"] for row in ROWS[:3]]
    for seed in range(4):  # whether the shared one is among those held out or not
        some = source(train, heldout_path=str(heldout), num_heldout=1, seed=seed)
        with pytest.warns(UserWarning, match="1 training prompts of .* occur in"):
            assert contents(some.train_prompts()) == [row["prompt"] for row in ROWS[:3]]
        assert len(some.heldout_prompts()) == 1
    with pytest.raises(ValueError, match=r"holds out all .* that it trains on; set it to at most 3, or name .*heldout"):
        source(train, num_heldout=None).check()
    with (
        pytest.warns(UserWarning, match="4 training prompts of .* occur in"),
        pytest.raises(ValueError, match=r"each of the 4 prompts in .*a\.jsonl occurs in .*a\.jsonl too; .*_path"),
    ):
        source(train, heldout_path=str(train), num_heldout=1).check()
    with pytest.raises(ValueError, match=r"no training prompt of the 4 .* after holding out 4; lower .*num_heldout"):
        source(train, num_heldout=4).check()


def numbered(start, stop):
    return [{"prompt": f"{i} + 1 =", "answer": i + 1} for i in range(start, stop)]


def lines(path, rows, *, num_heldout=0, seed=0, **options):
    return jsonl_source(jsonl(path, rows), num_heldout=num_heldout, seed=seed, **options)


def test_the_split_is_complete_and_depends_on_the_seed_and_the_prompts_and_not_on_the_order_of_lines(tmp_path):
    made = lines(tmp_path / "a.jsonl", numbered(0, 20), num_heldout=5, seed=1)
    train, heldout = contents(made.train_prompts()), contents(made.heldout_prompts())
    assert (len(train), len(heldout)) == (15, 5)
    assert set(train) | set(heldout) == {row["prompt"] for row in numbered(0, 20)}
    backwards = lines(tmp_path / "b.jsonl", numbered(0, 20)[::-1], num_heldout=5, seed=1)
    assert contents(backwards.heldout_prompts()) == heldout
    assert {p.prompt_id for p in backwards.train_prompts()} == {p.prompt_id for p in made.train_prompts()}
    other = lines(tmp_path / "a.jsonl", numbered(0, 20), num_heldout=5, seed=2)
    assert set(contents(other.heldout_prompts())) != set(heldout)


def test_columns_template_and_system_prompt_of_json_lines(tmp_path):
    """A byte order mark and empty lines are skipped, and only a line feed ends a line."""
    made = lines(
        tmp_path / "a.jsonl",
        ['\ufeff{"question": "x_{1}?\u2028 a {answer}", "final": "3", "level": 2}\r', "", "   "],
        prompt_column="question",
        answer_column="final",
        system_prompt="Be brief.",
        prompt_template="Q: {prompt} {unit}",
    )
    [prompt] = made.train_prompts()
    assert prompt.messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Q: x_{1}?\u2028 a {answer} {unit}"},
    )
    assert prompt.reference == {"answer": "3", "columns": {"final": "3", "level": 2}}


GOOD = {"prompt": "a", "answer": "b"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["", "  "], "holds no prompts"),
        ([GOOD, "", "[1]"], "line 3: a JSON object with columns is needed; found list"),
        ([{"question": "a", "solution": "b"}], "line 1: no column 'prompt'; columns found: question, solution; set"),
        ([{"prompt": ["a"], "answer": "b"}], "column 'prompt' must be text or a list of messages .*; found list of"),
        ([{"prompt": "a", "answer": None}], "column 'answer' must be text or a number; found nothing"),
        ([{"prompt": " ", "answer": "b"}], "line 1: the prompt is empty"),
        (["{'prompt'", *[GOOD, "[1]"] * 6],
         r"(?s)^7 lines of .*a\.jsonl are no JSON objects:\n  .*line 1: not valid.*line 3: .*line 9: .* and 2 more$"),
        ([GOOD, {"prompt": " ", "answer": "b"}, {"prompt": "c", "answer": None}],
         r"(?s)^2 of 3 rows of .*a\.jsonl are unusable:\n  .*line 2: the prompt is empty\n  .*line 3: column 'ans"),
        (numbered(0, 3), "num_heldout = 5, but .* has 3 distinct prompts; use data.source.num_heldout=1"),
        (numbered(0, 5), "no training prompt of the 5"),
    ],
)  # fmt: skip
def test_json_lines_take_no_line_that_they_cannot_use(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        lines(tmp_path / "a.jsonl", rows, num_heldout=5).check()


@pytest.mark.parametrize(("encoding", "line", "name"), [("latin-1", 2, "ISO-8859-1"), ("utf-16", 1, "UTF-16")])
@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_text_that_is_not_utf8_is_named_with_its_line_and_a_way_out(tmp_path, encoding, line, name, ending):
    path = tmp_path / f"other{ending}"
    text = '{"prompt": "a", "answer": "b"}\n{"prompt": "caf\xe9", "answer": "b"}\n'
    with (gzip.open if ending.endswith("gz") else open)(path, "wt", encoding=encoding) as file:
        file.write(text)
    with pytest.raises(ValueError, match="not UTF-8") as refused:
        jsonl_source(path, num_heldout=0, seed=0).check()
    message = str(refused.value)
    assert message.startswith(f"{path}, line {line}: not UTF-8: ")
    assert f"iconv -f {name} -t UTF-8 {tmp_path / 'other.jsonl'} > <new file>" in message


ON_DATASETS = """
import sys, json
from pathlib import Path
from ada_lightning.data.dataset import DatasetSource
assert "datasets" not in sys.modules
from datasets import Dataset, DatasetDict
folder, rows = Path(sys.argv[1]), [{"question": f"{i} + 1 =", "answer": i + 1} for i in range(6)]
train, test = Dataset.from_list(rows[:4]), Dataset.from_list(rows[4:])
train.to_parquet(folder / "set" / "train-00000-of-00001.parquet")
test.to_parquet(folder / "set" / "test-00000-of-00001.parquet")
train.save_to_disk(folder / "saved")
DatasetDict(train=train, test=test).save_to_disk(folder / "splits")

def read(path, num_heldout=0, **options):
    source = DatasetSource(str(path), num_heldout=num_heldout, seed=0, **options)
    try:
        return [sorted(p.messages[0]["content"][0] for p in found)
                for found in (source.train_prompts(), source.heldout_prompts())]
    except ValueError as error:
        return str(error)

print("RESULT", json.dumps({
    "set": read(folder / "set"), "slice": read(folder / "set", split="train[:2]"),
    "heldout": read(folder / "set", heldout_split="test", num_heldout=2),
    "saved": read(folder / "saved"), "splits": read(folder / "splits", split="test"),
    "columns": read(folder / "set", keep_columns=["answer"]),
    "no split": read(folder / "set", split="valid"), "no saved split": read(folder / "splits", split="valid"),
    "no configuration": read(folder / "set", name="main"), "offline": read("org/set"),
}))
"""


def test_folders_load_as_data_sets_of_the_hub_do_and_errors_say_the_way_out(tmp_path):
    """In a process whose ``datasets`` knows from the start to be offline."""
    command = [sys.executable, "-c", ON_DATASETS, str(tmp_path)]
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home"), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    on_datasets = json.loads(done.stdout.partition("RESULT")[2])
    assert on_datasets["set"] == [list("0123"), []]
    assert on_datasets["columns"] == [list("0123"), []]
    assert on_datasets["slice"] == [list("01"), []]
    assert on_datasets["heldout"] == [list("0123"), list("45")]
    assert on_datasets["saved"] == [list("0123"), []]
    assert on_datasets["splits"] == [list("45"), []]

    for case, parts in (
        ("no split", ["Should be one of ['train', 'test']", "set data.source.split"]),
        ("no saved split", ["Should be one of ['train', 'test']", "set data.source.split"]),
        ("no configuration", ["Available: ['default']", "set data.source.name"]),
        ("offline", ["cannot read the data set org/set (split=train)", "hf download org/set", "--local-dir"]),
    ):
        assert all(part in on_datasets[case] for part in parts), on_datasets[case]
