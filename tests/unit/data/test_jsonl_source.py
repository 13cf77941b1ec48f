import gzip
import json

import pytest

from ada_lightning.data.jsonl import JsonlSource


def write(path, rows):
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def numbered(start, stop):
    return [{"prompt": f"{i} + 1 =", "answer": i + 1} for i in range(start, stop)]


def contents(prompts):
    return [prompt.messages[-1]["content"] for prompt in prompts]


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "sums.jsonl", numbered(0, 20))


def test_splits_are_disjoint_and_complete(file):
    source = JsonlSource(file, num_heldout=5, seed=1)
    train, heldout = contents(source.train_prompts()), contents(source.heldout_prompts())
    assert (len(train), len(heldout)) == (15, 5)
    assert set(train) | set(heldout) == {row["prompt"] for row in numbered(0, 20)}


def test_the_split_depends_on_the_seed_and_not_on_the_order_of_lines(file, tmp_path):
    reversed_file = write(tmp_path / "reversed.jsonl", numbered(0, 20)[::-1])
    first = contents(JsonlSource(file, num_heldout=5, seed=1).heldout_prompts())
    assert contents(JsonlSource(reversed_file, num_heldout=5, seed=1).heldout_prompts()) == first
    assert set(contents(JsonlSource(file, num_heldout=5, seed=2).heldout_prompts())) != set(first)


def test_columns_template_and_system_prompt(tmp_path):
    rows = [{"question": "x_{1}?\u2028 a {answer}", "final": "3", "level": 2}, "", "   "]
    source = JsonlSource(
        write(tmp_path / "a.jsonl", rows),
        num_heldout=0,
        seed=0,
        prompt_column="question",
        answer_column="final",
        system_prompt="Be brief.",
        prompt_template="Q: {prompt} {unit}",
    )
    [prompt] = source.train_prompts()
    assert prompt.messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Q: x_{1}?\u2028 a {answer} {unit}"},
    )
    assert prompt.reference == {"answer": "3", "columns": {"final": "3", "level": 2}}


def test_a_separator_inside_a_string_does_not_end_a_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"prompt": "a\u2028b", "answer": "c"}\r\n{"prompt": "d", "answer": "e"}\r\n', encoding="utf-8-sig")
    assert contents(JsonlSource(path, num_heldout=0, seed=0).train_prompts()) == ["a\u2028b", "d"]


def test_repeated_prompts_are_dropped_and_counted(tmp_path):
    path = write(tmp_path / "a.jsonl", [*numbered(0, 4), *numbered(1, 3)])
    with pytest.warns(UserWarning, match="2 of 6 prompts in .* repeat an earlier one"):
        assert len(JsonlSource(path, num_heldout=0, seed=0).train_prompts()) == 4


def test_a_heldout_file_of_its_own_is_kept_out_of_training(file, tmp_path):
    heldout_file = write(tmp_path / "heldout.jsonl", numbered(15, 25))
    source = JsonlSource(file, num_heldout=4, seed=0, heldout_path=heldout_file)
    with pytest.warns(UserWarning, match="5 training prompts of .* occur in"):
        source.check()
    assert contents(source.train_prompts()) == [row["prompt"] for row in numbered(0, 15)]
    assert set(contents(source.heldout_prompts())) < {row["prompt"] for row in numbered(15, 25)}
    assert len(source.heldout_prompts()) == 4


def test_prompt_ids_are_stable(file, tmp_path):
    other = write(tmp_path / "other.jsonl", numbered(3, 4))
    [prompt] = JsonlSource(other, num_heldout=0, seed=9).train_prompts()
    same = [p for p in JsonlSource(file, num_heldout=0, seed=1).train_prompts() if p.messages == prompt.messages]
    assert [p.prompt_id for p in same] == [prompt.prompt_id]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "holds no prompts"),
        (["", "  "], "holds no prompts"),
        ([{"prompt": "a", "answer": "b"}, "{'prompt'"], "line 2: not valid JSON at column 2"),
        ([{"prompt": "a", "answer": "b"}, "", "[1]"], "line 3: a JSON object with columns is needed; found list"),
        (
            [{"question": "a", "solution": "b"}],
            "line 1: no column 'prompt'; columns found: question, solution; set data",
        ),
        ([{"prompt": "a", "solution": "b"}], "no column 'answer'.*set data.source.answer_column"),
        (
            [{"prompt": ["a"], "answer": "b"}],
            "column 'prompt' must be text or a list of messages .*; found list of str",
        ),
        ([{"prompt": "a", "answer": None}], "column 'answer' must be text or integer or number; found NoneType"),
        ([{"prompt": "a", "answer": True}], "found bool"),
        ([{"prompt": " ", "answer": "b"}], "line 1: the prompt is empty"),
        (
            ["{'prompt'", *[{"prompt": "a", "answer": "b"}, "[1]"] * 6],
            r"(?s)^7 lines of .*a\.jsonl are no JSON objects:\n  .*line 1: not valid.*line 3: .*line 9: .* and 2 more$",
        ),
        (
            [{"prompt": "a", "answer": "b"}, {"prompt": " ", "answer": "b"}, {"prompt": "c", "answer": None}],
            r"(?s)^2 of 3 rows of .*a\.jsonl are unusable:\n  .*line 2: the prompt is empty\n  .*line 3: column 'ans",
        ),
        (numbered(0, 3), "num_heldout = 5, but .* has 3 distinct prompts"),
        (numbered(0, 5), "no training prompt is left of the 5"),
    ],
)
def test_check_says_what_is_wrong_and_where(tmp_path, rows, message):
    source = JsonlSource(write(tmp_path / "a.jsonl", rows), num_heldout=5, seed=0)
    with pytest.raises(ValueError, match=message):
        source.check()


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"cannot read prompts from .*missing\.jsonl.*No such file"):
        JsonlSource(tmp_path / "missing.jsonl", num_heldout=0, seed=0).check()


@pytest.mark.parametrize(("encoding", "line", "name"), [("latin-1", 2, "ISO-8859-1"), ("utf-16", 1, "UTF-16")])
@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_text_that_is_not_utf8_is_named_with_its_line_and_a_way_out(tmp_path, encoding, line, name, ending):
    path = tmp_path / f"other{ending}"
    text = '{"prompt": "a", "answer": "b"}\n{"prompt": "caf\xe9", "answer": "b"}\n'
    with (gzip.open if ending.endswith("gz") else open)(path, "wt", encoding=encoding) as file:
        file.write(text)
    with pytest.raises(ValueError, match="not UTF-8") as refused:
        JsonlSource(path, num_heldout=0, seed=0).check()
    message = str(refused.value)
    assert message.startswith(f"{path}, line {line}: not UTF-8: ")
    assert f"iconv -f {name} -t UTF-8 {tmp_path / 'other.jsonl'} > <new file>" in message


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_heldout": -1}, "num_heldout must be at least 0; got -1"),
        ({"prompt_template": "no slot"}, "{prompt}; got 'no slot'"),
        ({"answer_column": "prompt"}, "are both 'prompt'"),
        ({"num_heldout": 0, "heldout_path": "b.jsonl"}, "heldout_path = 'b.jsonl' is given but num_heldout is 0"),
    ],
)
def test_impossible_settings_are_refused_at_construction(kwargs, message):
    with pytest.raises(ValueError, match=message):
        JsonlSource("a.jsonl", **{"num_heldout": 1, "seed": 0, **kwargs})
