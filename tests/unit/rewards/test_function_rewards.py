"""Functions of the user's own, written for this library or for another."""

import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir

from ada_lightning.config.check import ConfigError, check_config
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.failures import NotApplicableError
from ada_lightning.rewards.function import FunctionReward
from ada_lightning.rewards.pool import RewardPool
from ada_lightning.rewards.trl_function import TrlFunctionReward
from ada_lightning.rewards.verl_function import VerlFunctionReward

FUNCTIONS = "tests.unit.rewards.user_functions"
COLUMNS = {"solution": 12, "level": 3, "text": "a column"}
PROMPT = Prompt("id", ({"role": "user", "content": "6 + 6 ="},), {"answer": 12, "columns": COLUMNS}, task="sums")
VERL_COLUMNS = {"data_source": "gsm8k", "reward_model": {"ground_truth": "12"}, "extra_info": {"index": 3}}
VERL = Prompt("id", (), {"answer": "13", "columns": VERL_COLUMNS})


def own(name, **options):
    return FunctionReward(f"{FUNCTIONS}.{name}", **options)


def trl(name, **options):
    return TrlFunctionReward(f"{FUNCTIONS}.{name}", **options)


def verl(name, **options):
    return VerlFunctionReward(f"{FUNCTIONS}.{name}", **options)


@pytest.mark.parametrize(
    ("reward", "prompt", "completion", "expected"),
    [
        (own("old_style"), PROMPT, Completion("12"), 1.0),
        (own("old_style"), PROMPT, Completion("13"), 0.0),
        (own("by_column"), PROMPT, Completion("12"), 4.0),
        (own("by_column", arguments={"bonus": 0.5}), PROMPT, Completion("13"), 3.5),
        (own("by_column", arguments={"level": 7}), PROMPT, Completion("13"), 7.0),  # before the column of this name
        (own("by_record"), PROMPT, Completion("", "length"), 16.0),
        (own("by_record"), PROMPT, Completion("", "stop"), 15.0),
        (own("judge"), PROMPT, Completion("good"), 1.0),
        (trl("trl_reward"), PROMPT, Completion("12"), 1.0),
        (trl("trl_reward"), PROMPT, Completion("13"), 0.0),
        (trl("trl_plain", conversational=False), PROMPT, Completion("12"), 4.0),
        (trl("trl_async"), PROMPT, Completion("12"), 0.5),
        (verl("verl_number"), VERL, Completion("12"), 1.0),
        (verl("verl_number"), VERL, Completion("13"), 0.0),
        (verl("verl_mapping"), PROMPT, Completion("12"), Verdict(1.0, "12", {"acc": 1.0})),
        (
            verl("verl_mapping", arguments={"penalty": 0.25}), PROMPT, Completion("1", "length"),
            Verdict(-0.25, "1", {"acc": 0.0}),
        ),
    ],
)  # fmt: skip
def test_a_function_gets_what_it_declares(reward, prompt, completion, expected):
    reward.check()
    reward.check_prompt(prompt)
    assert reward(prompt, completion) == expected
    assert VERL_COLUMNS["extra_info"] == {"index": 3}  # what is added for verl leaves the data alone


def test_a_function_of_any_keyword_gets_all_there_is_and_the_response_before_a_column_of_its_name():
    names = "answer columns completion finish_reason level prompt reference solution text url"
    made = own("everything", arguments={"url": "http://judge"})
    assert made(PROMPT, Completion("12")) == Verdict(10.0, f"{names}: 12")


def test_an_async_function_keeps_its_event_loop_between_calls():
    made = own("judge")
    assert len({made(PROMPT, Completion("loops")) for _ in range(3)}) == 1  # the number of loops so far


def test_the_function_is_imported_where_it_runs():
    made = own("judge")
    made(PROMPT, Completion("good"))  # has a loop now, which does not travel
    assert pickle.loads(pickle.dumps(made))(PROMPT, Completion("good")) == 1.0
    pool = RewardPool(made)
    try:
        pool.submit("a", PROMPT, Completion("good"))
        assert pool.wait(120) == [("a", Verdict(1.0))]
    finally:
        pool.close()


@pytest.mark.parametrize("path", ["is_twelve", "", "a..b", "a.b()", "a/b.c"])
def test_a_path_that_names_no_function_is_refused_at_construction(path):
    with pytest.raises(ValueError, match=r"package\.module\.function"):
        FunctionReward(path)


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (FunctionReward("no_such_package.module.grade"), "cannot import 'no_such_package.module'.*No module named"),
        (own("is_thirteen"), "has no function 'is_thirteen'; callables there: .*by_column"),
        (own("__doc__"), "has no function '__doc__'"),
        (own("by_position"), "prompt, text can only be given by position"),
        (own("with_star"), "texts can only be given by position"),
        (own("Verdict"), "Verdict is a class, and what it makes is no reward; name an instance of it or a function"),
        (trl("trl_in_turn"), "trl_in_turn yields, and a reward is returned; write return in place of yield"),
        (own("by_column", arguments={"bonuss": 1.0}), r"^reward\.reward\.arguments\.bonuss: .* has no parameter of"),
        (trl("trl_ids"), "requires completion_ids, which TRL's trainer has and a reward process has not"),
        (verl("verl_wrong"), "needs 'solution', 'truth'; what verl's functions are given: data_source"),
    ],
)
def test_a_function_that_cannot_be_called_is_found_before_the_run(reward, message):
    with pytest.raises(ValueError, match=message):
        reward.check()


@pytest.mark.parametrize(
    ("reward", "columns", "message"),
    [
        (own("by_column"), {}, r"needs 'level'; what this sample has: answer, columns, .*add the column to the data$"),
        (own("trl_reward"), {}, "Use reward=trl_function reward.reward.path=.*trl_reward$"),
        (own("verl_number"), {}, "Use reward=verl_function reward.reward.path=.*verl_number$"),
        (own("verl_mapping"), {}, "Use reward=verl_function reward.reward.path=.*verl_mapping$"),
        (trl("trl_plain"), {}, "needs 'level'; what this sample has: answer, completions, prompts"),
        (verl("verl_number"), {"extra_info": "easy"}, "column extra_info must hold names and values; found str"),
    ],
)
def test_what_a_function_needs_and_a_sample_lacks_is_found_before_the_run(reward, columns, message):
    with pytest.raises(ValueError, match=message):
        reward.check_prompt(Prompt("id", (), {"answer": "12", "columns": columns}))


def test_a_missing_ground_truth_is_found_before_the_run():
    with pytest.raises(ValueError, match=r"no ground truth: .*; columns: level"):
        verl("verl_number").check_prompt(Prompt("id", (), {"columns": {"level": 1}}))


def test_what_is_no_finite_number_beside_verls_score_costs_no_reward():
    returned = {"score": 1.0, "acc": np.float32(0.5), "ok": np.bool_(True), "kl": math.nan, "x": 10**400, "why": "so"}
    assert verl("verl_mapping").graded(returned) == Verdict(1.0, None, {"acc": 0.5, "ok": 1.0})


def test_a_mapping_without_score_is_an_error_that_says_what_there_is():
    with pytest.raises(KeyError, match="verl_mapping returned a mapping without 'score'; it has: acc, reward"):
        verl("verl_mapping").graded({"reward": 1.0, "acc": 1.0})


@pytest.mark.parametrize(("make", "name"), [(own, "text"), (trl, "prompts"), (verl, "solution_str")])
def test_arguments_that_mean_something_else_are_refused(make, name):
    with pytest.raises(ValueError, match=rf"^reward\.reward\.arguments\.{name}: the function gets the sample's own"):
        make("everything", arguments={name: "12"})
    make("everything", arguments={"any": 1.0}).check()


@pytest.mark.parametrize(
    ("name", "text", "error", "message"),
    [
        ("trl_scalar", "12", TypeError, "must return a list"),
        ("trl_two", "12", TypeError, "2 rewards for 1"),
        ("trl_async", "?", NotApplicableError, "returned None"),
    ],
)
def test_what_a_trl_function_returned_instead_of_a_reward_is_an_error(name, text, error, message):
    with pytest.raises(error, match=message):
        trl(name)(PROMPT, Completion(text))


def test_a_module_that_fails_on_import_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken_grader.py").write_text("raise OSError('no answer key')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"cannot import 'broken_grader'.*OSError: no answer key"):
        RewardPool(FunctionReward("broken_grader.grade")).check()
    with pytest.raises(RuntimeError, match=r"cannot load FunctionReward.*OSError: no answer key"):
        RewardPool(FunctionReward("broken_grader.grade")).start()


def test_what_is_wrong_with_a_reward_is_said_once():
    with initialize_config_dir(str(Path(__file__).parents[3] / "conf"), version_base="1.3"):
        cfg = compose("train", overrides=["reward=function", "reward.reward.path=no_such_module.grade", "run_dir=x"])
    with pytest.raises(ConfigError) as refused:
        check_config(cfg)
    assert [line.split(": ")[0] for line in refused.value.problems] == ["reward.reward"]
