import pickle

import pytest

from ada_lightning.rewards.function import FunctionReward
from ada_lightning.rewards.pool import RewardPool
from ada_lightning.types import Completion, Grade, Prompt

PROMPT = Prompt("id", ())


def test_the_function_is_called_with_prompt_and_text():
    reward = FunctionReward("tests.unit.rewards.naughty_rewards.is_twelve")
    reward.check()
    assert reward(PROMPT, Completion("12")) == 1.0
    assert reward(PROMPT, Completion("13")) == 0.0


def test_the_function_is_imported_where_it_runs():
    reward = FunctionReward("tests.unit.rewards.naughty_rewards.is_twelve")
    reward.check()
    assert pickle.loads(pickle.dumps(reward))(PROMPT, Completion("12")) == 1.0
    pool = RewardPool(reward)
    try:
        pool.submit("a", PROMPT, Completion("12"))
        assert pool.wait(60) == [("a", Grade(1.0))]
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
        (
            "tests.unit.rewards.naughty_rewards.is_thirteen",
            "has no function 'is_thirteen'; callables there: .*is_twelve",
        ),
        ("tests.unit.rewards.naughty_rewards.__doc__", "has no function '__doc__'"),
    ],
)
def test_a_function_that_is_not_there_is_found_by_check(path, message):
    with pytest.raises(ValueError, match=message):
        FunctionReward(path).check()


def test_a_module_that_fails_on_import_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken_grader.py").write_text("raise OSError('no answer key')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"cannot import 'broken_grader'.*OSError: no answer key"):
        RewardPool(FunctionReward("broken_grader.grade")).check()
    with pytest.raises(RuntimeError, match=r"cannot load FunctionReward.*OSError: no answer key"):
        RewardPool(FunctionReward("broken_grader.grade")).start()
