import pickle

import pytest

from ada_lightning.core.records import Completion, Grade, Prompt, Verdict
from ada_lightning.rewards.function import FunctionReward
from ada_lightning.rewards.pool import RewardPool

FUNCTIONS = "tests.unit.rewards.user_functions"
PROMPT = Prompt("id", (), {"answer": 12, "columns": {"solution": 12, "level": 3, "text": "a column"}})


def reward(name, **options):
    return FunctionReward(f"{FUNCTIONS}.{name}", **options)


@pytest.mark.parametrize(
    ("name", "options", "completion", "expected"),
    [
        ("old_style", {}, Completion("12"), 1.0),
        ("old_style", {}, Completion("13"), 0.0),
        ("by_column", {}, Completion("12"), 4.0),
        ("by_column", {"arguments": {"bonus": 0.5}}, Completion("13"), 3.5),
        ("by_column", {"arguments": {"level": 7}}, Completion("13"), 7.0),  # before the column of this name
        ("by_record", {}, Completion("", "length"), 16.0),
        ("by_record", {}, Completion("", "stop"), 15.0),
        ("judge", {}, Completion("good"), 1.0),
    ],
)
def test_a_function_gets_what_it_declares(name, options, completion, expected):
    made = reward(name, **options)
    made.check()
    made.check_prompt(PROMPT)
    assert made(PROMPT, completion) == expected


def test_a_function_of_any_keyword_gets_all_there_is_and_the_response_before_a_column_of_its_name():
    names = "answer columns completion finish_reason level prompt reference solution text url"
    made = reward("everything", arguments={"url": "http://judge"})
    assert made(PROMPT, Completion("12")) == Verdict(10.0, f"{names}: 12")


def test_an_async_function_keeps_its_event_loop_between_calls():
    made = reward("judge")
    assert len({made(PROMPT, Completion("loops")) for _ in range(3)}) == 1  # the number of loops so far


def test_the_function_is_imported_where_it_runs():
    made = reward("judge")
    made(PROMPT, Completion("good"))  # has a loop now, which does not travel
    assert pickle.loads(pickle.dumps(made))(PROMPT, Completion("good")) == 1.0
    pool = RewardPool(made)
    try:
        pool.submit("a", PROMPT, Completion("good"))
        assert pool.wait(120) == [("a", Grade(1.0))]
    finally:
        pool.close()


@pytest.mark.parametrize("path", ["is_twelve", "", "a..b", "a.b()", "a/b.c"])
def test_a_path_that_names_no_function_is_refused_at_construction(path):
    with pytest.raises(ValueError, match=r"package\.module\.function"):
        FunctionReward(path)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_package.module.grade", "cannot import 'no_such_package.module'.*No module named 'no_such_package'"),
        (f"{FUNCTIONS}.is_thirteen", "has no function 'is_thirteen'; callables there: .*by_column"),
        (f"{FUNCTIONS}.__doc__", "has no function '__doc__'"),
        (f"{FUNCTIONS}.by_position", "prompt, text can only be given by position"),
        (f"{FUNCTIONS}.with_star", "texts can only be given by position"),
    ],
)
def test_a_function_that_cannot_be_called_is_found_by_check(path, message):
    with pytest.raises(ValueError, match=message):
        FunctionReward(path).check()


def test_a_parameter_without_a_meaning_is_found_before_the_run():
    made = reward("by_column")
    with pytest.raises(ValueError, match=r"needs 'level'; what this sample has: answer, columns, .*add the column"):
        made.check_prompt(Prompt("id", (), {"answer": 1}))


def test_arguments_that_nothing_reads_are_refused():
    with pytest.raises(ValueError, match=r"^reward\.reward\.arguments\.text: the function gets the response's own"):
        reward("old_style", arguments={"text": "12"})
    with pytest.raises(ValueError, match=r"^reward\.reward\.arguments\.bonuss: .* has no parameter of this name"):
        reward("by_column", arguments={"bonuss": 1.0}).check()
    reward("everything", arguments={"any": 1.0}).check()


def test_a_module_that_fails_on_import_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken_grader.py").write_text("raise OSError('no answer key')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"cannot import 'broken_grader'.*OSError: no answer key"):
        RewardPool(FunctionReward("broken_grader.grade")).check()
    with pytest.raises(RuntimeError, match=r"cannot load FunctionReward.*OSError: no answer key"):
        RewardPool(FunctionReward("broken_grader.grade")).start()
