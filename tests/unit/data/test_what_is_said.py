"""Nothing about a prompt is changed or left out without a line and a count."""

import json
import warnings

import pytest

from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.data.dataset import DatasetSource
from ada_lightning.data.formats import ChatFormat, PlainFormat, warn_of_other_end
from ada_lightning.data.mixture import MixtureSource
from ada_lightning.training.models.served import read_model
from ada_lightning.training.models.tiny import byte_tokenizer
from tests.unit.data.test_dataset_source import jsonl, parquet

ASK = {"role": "user", "content": "1 + 1 ="}
BEGUN = {"role": "assistant", "content": "It is "}


def source(path, **options):
    return DatasetSource(str(path), **{"num_heldout": 0, "seed": 0, **options})


def read(tmp_path, rows, **options):
    """The prompts, and what the report counts as changed."""
    made = source(jsonl(tmp_path / "a.jsonl", rows), **options)
    prompts = list(made.train_prompts())
    [report] = made.reports
    changed = {what: found["count"] for what, found in report.as_dict()["changed"].items()}
    assert all(f"{count} prompts: {what} (first: " in "\n".join(report.lines()) for what, count in changed.items())
    return prompts, changed


def text_of(prompts, template=None, prompt_format=None):
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template or tokenizer.chat_template
    prompt_format = prompt_format or ChatFormat()
    prompt_format.prepare(tokenizer)
    return [tokenizer.decode(prompt_format.token_ids(tokenizer, p.messages, p.template_arguments)) for p in prompts]


def test_a_turn_that_the_assistant_has_begun_is_continued(tmp_path):
    prompts, changed = read(tmp_path, [{"prompt": [ASK, BEGUN], "answer": "2"}, {"prompt": [ASK], "answer": "2"}])
    assert text_of(prompts)[0].endswith("assistant\nIt is ")
    assert text_of(prompts, prompt_format=PlainFormat()) == ["1 + 1 =\n\nIt is ", "1 + 1 ="]
    assert changed == {"a turn of the assistant at the end of the prompt is what responses continue": 1}
    assert len({prompt.prompt_id for prompt in prompts}) == 2


def test_the_whole_answer_at_the_end_of_messages_is_taken_off(tmp_path):
    [prompt], changed = read(tmp_path, [{"messages": [ASK, BEGUN], "answer": "2"}])
    assert prompt.messages == (ASK,)
    assert changed == {"the assistant's last turn is taken off: the answer is in 'answer'": 1}
    [prompt], changed = read(tmp_path, [{"messages": [ASK, BEGUN]}])
    assert (prompt.messages, prompt.reference["answer"], changed) == ((ASK,), "It is ", {})


THINKING = (
    "{% for m in messages %}{{ m.content }}{% endfor %}"
    "{% if enable_thinking is defined and not enable_thinking %}<off>{% endif %}"
)


def test_a_rows_own_arguments_reach_the_template_and_those_that_it_does_not_read_are_counted(tmp_path):
    rows = [
        {"prompt": "a", "answer": "1", "chat_template_kwargs": {"enable_thinking": False}},
        {"prompt": "a", "answer": "1", "chat_template_kwargs": {"other": 1}},  # a table has enable_thinking: None
        {"prompt": "a", "answer": "1"},
    ]
    made = source(parquet(tmp_path / "a.parquet", rows))
    prompts = made.train_prompts()
    assert text_of(prompts, THINKING) == ["a<off>", "a", "a"]
    assert len({prompt.prompt_id for prompt in prompts}) == 3
    assert prompts[2].prompt_id == source(jsonl(tmp_path / "a.jsonl", rows[2:])).train_prompts()[0].prompt_id
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = THINKING
    data = RolloutDataModule(source=made, prompts_per_step=1)
    data.encode_prompts(tokenizer)
    assert data.report.notes == [
        "1 prompts set 'other' in chat_template_kwargs, and the chat template does not read it"
    ]
    with pytest.raises(ValueError, match="'chat_template_kwargs' must be an object; found 'thinking'"):
        source(jsonl(tmp_path / "a.jsonl", [rows[0] | {"chat_template_kwargs": "thinking"}])).check()
    with pytest.raises(ValueError, match="sets 'tokenize', which is no variable"):
        source(jsonl(tmp_path / "a.jsonl", [rows[0] | {"chat_template_kwargs": {"tokenize": False}}])).check()


def test_no_training_prompt_has_a_held_out_text_with_other_arguments(tmp_path):
    rows = [
        {"prompt": text, "answer": "1", "chat_template_kwargs": {"enable_thinking": thinks}}
        for text in "abc"
        for thinks in (True, False)
    ]
    made = source(jsonl(tmp_path / "a.jsonl", rows), num_heldout=2)
    held, trained = (
        {p.messages[0]["content"] for p in found} for found in (made.heldout_prompts(), made.train_prompts())
    )
    assert held | trained == set("abc")
    assert not held & trained


def test_messages_stored_as_json_text_are_messages(tmp_path):
    rows = [{"prompt": json.dumps([ASK]), "answer": "2"}, {"prompt": "the role [of x]", "answer": "3"}]
    prompts, changed = read(tmp_path, rows)
    assert [prompt.messages for prompt in prompts] == [(ASK,), ({"role": "user", "content": "the role [of x]"},)]
    assert changed == {"messages stored as JSON text are read as messages": 1}
    with pytest.raises(
        ValueError, match=r"line 1: column 'prompt' holds messages as Python prints them, which is not J"
    ):
        source(jsonl(tmp_path / "a.jsonl", [{"prompt": str([ASK]), "answer": "2"}])).check()


def test_a_first_row_does_not_say_whether_messages_end_with_an_answer(tmp_path):
    calls = [ASK, {"role": "assistant", "content": "", "tool_calls": [{}]}, BEGUN]
    rows = [{"messages": calls}, {"messages": json.dumps([ASK, BEGUN])}]
    for row in (rows, rows[1:]):
        [prompt] = source(jsonl(tmp_path / "a.jsonl", row)).train_prompts()
        assert (prompt.messages, prompt.reference["answer"]) == ((ASK,), "It is ")


def test_an_answer_inside_of_json_text_is_read_and_counted(tmp_path):
    [prompt], changed = read(tmp_path, [{"prompt": "a", "reward_model": '{"ground_truth": "007"}'}])
    assert prompt.reference["answer"] == "007"
    assert changed == {"column 'reward_model' holds JSON text, which is parsed": 1}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"choices": ["2", "3"]},
            "column 'choices' is not shown to the model; data.source.choices_column=choices does it",
        ),
        (
            {"options": {"text": ["2"], "label": ["A"]}},
            "'options' is not shown to the model; data.source.choices_column",
        ),
        ({"options": {"A": "2"}}, "'options' is not shown to the model; data.source.choices_column=options does it"),
        ({"context": "Long ago."}, "column 'context' is not shown to the model"),
        ({"tools": ["search"]}, "column 'tools' is not shown to the model"),
        ({"prompt": "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"}, "holds the markup of a chat template"),
        ({"prompt": "User: 1 + 1?\nAssistant: Let me see.\n<think>"}, "holds the markup of a chat template"),
        ({"prompt": [{**ASK, "name": "Ann"}]}, "keys of messages other than role and content are left out: name"),
        ({"prompt": [{**ASK, "content": [{"type": "text", "text": x} for x in "ab"]}]}, "content in parts is joined"),
        ({"answer": ["2"]}, "answers in lists of one element are taken out of the list"),
        ({"data_source": None}, "column 'data_source' is empty: the task is 'dataset'"),
    ],
)
def test_what_is_not_taken_as_it_stands_is_counted(tmp_path, row, said):
    verl = {"prompt": "q", "answer": "2", "reward_model": {"ground_truth": "2"}, "data_source": "x"}
    plain = {"prompt": "q", "answer": "2"}
    _, changed = read(tmp_path, [(verl if "data_source" in row else plain) | row])
    assert [said in what for what in changed] == [True]
    assert ("choices_column" in said) == ("choices_column" in "".join(changed))
    assert list(changed.values()) == [1]
    _, changed = read(tmp_path, [plain | {"prompt": "<x> [INS] Assistant: a", "choices": ["<x>", "a"], "context": ""}])
    assert changed == {}


def test_a_system_turn_that_a_setting_replaces_is_counted(tmp_path):
    rows = [{"prompt": [{"role": "system", "content": "Be brief."}, ASK], "answer": "2"}]
    _, changed = read(tmp_path, rows, system_prompt="Reason.")
    assert changed == {"a system turn is replaced by data.source.system_prompt": 1}
    assert read(tmp_path, rows, system_prompt="Be brief.")[1] == {}


def test_choices_are_put_behind_the_question_and_the_answer_is_a_letter(tmp_path):
    rows = [
        {"question": "Sky?", "choices": ["red", "blue"], "answer": 1},  # MMLU
        {"question": "2 + 2?", "choices": ["A)4", "B)5"], "answer": "A"},  # AQuA
        {"question": "Ice?", "choices": {"text": ["hot", "cold"], "label": ["1", "2"]}, "answer": "2"},  # ARC
        {"question": "Sun?", "choices": ["hot", "cold"], "answer": "hot"},
        {"question": "1 + 1?", "choices": ["1", "2", "3"], "answer": 1},  # MMLU, of numbers
        {"question": "Sea?", "choices": {"A": "red", "B": "blue", "C": None}, "answer": "blue"},  # MedQA
        {"question": "2 + 2?", "choices": ["2", "4", "1"], "answer": "1"},
        {"question": "Moon?", "choices": ["hot", "cold"], "answer": "far"},
        {"question": "No?", "choices": [], "answer": 0},
    ]
    made = source(jsonl(tmp_path / "a.jsonl", rows), choices_column="choices", prompt_template="{prompt}\nLetter:")
    asked = [(prompt.messages[0]["content"], prompt.reference["answer"]) for prompt in made.train_prompts()]
    assert asked == [
        ("Sky?\nA. red\nB. blue\nLetter:", "B"),
        ("2 + 2?\nA)4\nB)5\nLetter:", "A"),
        ("Ice?\n1. hot\n2. cold\nLetter:", "2"),
        ("Sun?\nA. hot\nB. cold\nLetter:", "A"),
        ("1 + 1?\nA. 1\nB. 2\nC. 3\nLetter:", "B"),
        ("Sea?\nA. red\nB. blue\nLetter:", "B"),
    ]
    [report] = made.reports
    assert report.changes == {}
    assert report.dropped == {"unusable answer": 2, "empty": 1}
    two, none = (kind.example for kind in report.kinds["unusable answer"].values())
    assert "holds the text '1', which is both one choice and the index of another, counted from 0" in two
    assert "holds 'far', which is not one of the choices" in none
    assert report.layout.startswith("layout question and answer: prompt from 'question' and 'choices', answer from")


def test_rows_that_are_dropped_are_counted_by_kind_with_an_example_of_each(tmp_path):
    rows = [
        {"prompt": "a", "answer": "1"},
        *({"prompt": "", "answer": "1"} for _ in range(3)),
        {"prompt": [{"role": "system", "content": "x"}], "answer": "1"},
        {"prompt": 7, "answer": "1"},
        {"answer": "1"},
        *({"prompt": f"list {i}", "answer": [str(i)] * 2} for i in range(2)),
        {"prompt": "b", "answer": None},
    ]
    made = source(jsonl(tmp_path / "a.jsonl", rows))
    made.check()
    [report] = made.reports
    kinds = report.as_dict()["kinds"]
    assert [kind["count"] for kind in kinds["empty"]] == [3, 1, 1, 1]
    assert [kind["count"] for kind in kinds["unusable answer"]] == [2, 1]
    lines = report.lines()
    assert lines[2] == f"    empty 3, for example {tmp_path}/a.jsonl, line 2: the prompt is empty"
    assert f"    empty 1, for example {tmp_path}/a.jsonl, line 5: the prompt has no turn of the user" in lines
    assert any(
        line.startswith("    unusable answer 2, for") and "line 8: column 'answer' must" in line for line in lines
    )


def test_refusals_of_a_reward_are_reported_by_kind(tmp_path):
    made = source(jsonl(tmp_path / "a.jsonl", [{"prompt": f"{i}", "answer": f"{i}"} for i in range(9)]))
    data = RolloutDataModule(source=made, prompts_per_step=1)
    data.encode_prompts(byte_tokenizer())
    prompts = data.train_prompts
    reasons = {prompt.prompt_id: f"its answer {str(i)!r} is no number" for i, prompt in enumerate(prompts[:5])}
    data.drop_prompts(reasons | {prompts[5].prompt_id: "its answer is empty"})
    first = f"{prompts[0].prompt_id}: its answer '0' is no number"
    assert data.report.as_dict()["train"]["kinds"]["unusable answer"] == [
        {"count": 5, "example": first},
        {"count": 1, "example": f"{prompts[5].prompt_id}: its answer is empty"},
    ]
    assert f"    unusable answer 5, for example {first}" in data.report.text().splitlines()


def test_a_first_row_that_lacks_keys_does_not_choose_the_layout(tmp_path):
    rows = [{"problem": "a"}, {"problem": "b", "solution": "so 2"}, {"problem": "c", "answer": "3", "solution": "so 3"}]
    made = source(jsonl(tmp_path / "a.jsonl", rows))
    assert [prompt.reference["answer"] for prompt in made.train_prompts()] == ["3"]
    rows = [{"prompt": "a", "reward_model": {"style": "rule"}}, {"prompt": "b", "reward_model": {"ground_truth": "2"}}]
    made = source(jsonl(tmp_path / "b.jsonl", rows))
    assert [prompt.reference["answer"] for prompt in made.train_prompts()] == ["2"]


def test_a_column_that_was_named_may_be_absent_from_the_first_row(tmp_path):
    rows = [{"text": "a"}, {"text": "b", "gold": "2", "level": 1}]
    named = {"prompt_column": "text", "answer_column": "gold", "keep_columns": ["level"]}
    [prompt] = source(jsonl(tmp_path / "a.jsonl", rows), **named).train_prompts()
    assert prompt.reference == {"answer": "2", "columns": {"level": 1}}


def test_an_answer_column_is_found_beside_a_prompt_that_was_named(tmp_path):
    rows = [{"instruction": "Say 2", "answer": "2"}]
    made = source(jsonl(tmp_path / "a.jsonl", rows), prompt_column="instruction")
    assert made.train_prompts()[0].reference["answer"] == "2"
    assert made.reports[0].layout == "layout as configured: prompt from 'instruction', answer from 'answer'"


NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}x"
ALTERNATE = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{% endfor %}x"
)


@pytest.mark.parametrize(
    ("template", "prompt", "said"),
    [
        (
            NO_SYSTEM,
            [{"role": "system", "content": "S"}, ASK],
            r"turns of system, user: .*System role not supported; a mo",
        ),
        (
            ALTERNATE,
            [ASK, ASK],
            r"turns of user, user: .*roles must alternate; data/format=chat data\.format\.template_f",
        ),
        ("{% for m in messages %}", "q", r"is broken, at line 1: .*data/format=plain none"),
        ("{{ messages[0].content + 1 }}", "q", r"turns of user: TypeError: "),
    ],
)
def test_a_template_that_refuses_a_prompt_is_an_error_with_the_row_and_a_way_out(tmp_path, template, prompt, said):
    rows = [{"prompt": prompt, "answer": "2"}]
    if "raise" in template:
        rows.insert(0, {"prompt": "fine", "answer": "1"})
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template
    made = source(jsonl(tmp_path / "a.jsonl", rows))
    for either in (made, MixtureSource({"part": {"source": made}}, seed=0)):
        with pytest.raises(ValueError, match=rf"a\.jsonl, line {len(rows)}: the chat template .*{said}"):
            RolloutDataModule(source=either, prompts_per_step=1).encode_prompts(tokenizer)


def test_a_template_that_ends_turns_with_another_token_is_warned_of():
    tokenizer = byte_tokenizer()
    with pytest.warns(UserWarning, match=r"ends a turn with '<\|im_end\|>', and a response ends with '#'"):
        warn_of_other_end(tokenizer, None, tokenizer("#")["input_ids"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_other_end(tokenizer, None, [tokenizer.eos_token_id])
        warn_of_other_end(tokenizer, PlainFormat(), [5])


def test_a_model_without_an_end_token_is_refused(tmp_path):
    tokenizer = byte_tokenizer()
    tokenizer.eos_token = None
    tokenizer.save_pretrained(tmp_path)
    config = {"model_type": "qwen2", "eos_token_id": None, "bos_token_id": None}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ValueError, match=r"does not name the token that ends a response.*eos_token_id in its generation_config"
    ):
        read_model(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": 7}))
    assert read_model(tmp_path).eos_token_ids == [7]
