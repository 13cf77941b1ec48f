"""Functions written for other trainers."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from ada_lightning.config.check import ConfigError, check_config
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.function import FunctionReward
from ada_lightning.rewards.not_applicable import NotApplicableError
from ada_lightning.rewards.trl_function import TrlFunctionReward
from ada_lightning.rewards.verl_function import VerlFunctionReward

FUNCTIONS = "tests.unit.rewards.user_functions"
PROMPT = Prompt("id", ({"role": "user", "content": "6 + 6 ="},), {"answer": 12, "columns": {"level": 3}}, task="sums")
VERL_COLUMNS = {"data_source": "gsm8k", "reward_model": {"ground_truth": "12"}, "extra_info": {"index": 3}}
VERL = Prompt("id", (), {"answer": "13", "columns": VERL_COLUMNS})


def trl(name, **options):
    return TrlFunctionReward(f"{FUNCTIONS}.{name}", **options)


def verl(name, **options):
    return VerlFunctionReward(f"{FUNCTIONS}.{name}", **options)


@pytest.mark.parametrize(
    ("name", "options", "text", "expected"),
    [
        ("trl_reward", {}, "12", 1.0),
        ("trl_reward", {}, "13", 0.0),
        ("trl_plain", {"conversational": False}, "12", 4.0),
        ("trl_async", {}, "12", 0.5),
    ],
)
def test_trl_functions_get_lists_of_one_sample(name, options, text, expected):
    reward = trl(name, **options)
    reward.check()
    reward.check_prompt(PROMPT)
    assert reward(PROMPT, Completion(text)) == expected


def test_none_from_a_trl_function_is_no_reward_of_0():
    with pytest.raises(NotApplicableError, match="returned None"):
        trl("trl_async")(PROMPT, Completion("?"))


def test_what_trl_gives_and_we_cannot_is_refused_before_the_run():
    with pytest.raises(
        ValueError, match="requires completion_ids, which TRL's trainer has and a reward process has not"
    ):
        trl("trl_ids").check()


def test_a_column_that_a_trl_function_needs_and_the_data_lack_is_found_before_the_run():
    with pytest.raises(ValueError, match="needs 'level'; what this sample has: answer, completions, prompts"):
        trl("trl_plain").check_prompt(Prompt("id", (), {"answer": 1}))


@pytest.mark.parametrize(("name", "message"), [("trl_scalar", "must return a list"), ("trl_two", "2 rewards for 1")])
def test_what_a_trl_function_may_not_return(name, message):
    with pytest.raises(TypeError, match=message):
        trl(name)(PROMPT, Completion("12"))


def test_verl_functions_get_verl_s_columns():
    reward = verl("verl_number")
    reward.check()
    reward.check_prompt(VERL)
    assert (reward(VERL, Completion("12")), reward(VERL, Completion("13"))) == (1.0, 0.0)


def test_verl_mappings_give_the_score_the_answer_and_components_on_any_data():
    reward = verl("verl_mapping", arguments={"penalty": 0.25})
    reward.check()
    assert reward(PROMPT, Completion("12")) == Verdict(1.0, "12", {"acc": 1.0})
    assert reward(PROMPT, Completion("1", "length")) == Verdict(-0.25, "1", {"acc": 0.0})


def test_what_is_added_for_verl_leaves_the_data_alone():
    verl("verl_number")(VERL, Completion("12"))
    assert VERL_COLUMNS["extra_info"] == {"index": 3}


def test_verl_functions_that_want_something_else_are_refused_before_the_run():
    with pytest.raises(ValueError, match="needs 'solution', 'truth'; what verl's functions are given: data_source"):
        verl("verl_wrong").check()
    with pytest.raises(ValueError, match=r"no ground truth: .*; columns: level"):
        verl("verl_number").check_prompt(Prompt("id", (), {"columns": {"level": 1}}))


def test_extra_info_that_holds_no_names_is_found_before_the_run():
    with pytest.raises(ValueError, match="column extra_info must hold names and values; found str"):
        verl("verl_number").check_prompt(Prompt("id", (), {"answer": 12, "columns": {"extra_info": "easy"}}))


@pytest.mark.parametrize(
    ("name", "reward"),
    [("trl_reward", "trl_function"), ("verl_number", "verl_function"), ("verl_mapping", "verl_function")],
)
def test_a_function_written_for_another_library_is_shown_its_own_way_in(name, reward):
    path = f"tests.unit.rewards.user_functions.{name}"
    with pytest.raises(ValueError, match=f"Use reward={reward} reward.reward.path={path}$"):
        FunctionReward(path).check_prompt(Prompt("id", (), {"answer": "12"}))


def test_a_column_that_a_function_of_one_s_own_lacks_is_no_other_library_s():
    with pytest.raises(ValueError, match=r"add the column to the data$"):
        FunctionReward("tests.unit.rewards.user_functions.by_column").check_prompt(Prompt("id", (), {"answer": "12"}))


def test_what_is_wrong_with_a_reward_is_said_once():
    conf = str(Path(__file__).parents[3] / "conf")
    with initialize_config_dir(conf, version_base="1.3"):
        cfg = compose("train", overrides=["reward=function", "reward.reward.path=no_such_module.grade", "run_dir=x"])
    with pytest.raises(ConfigError) as refused:
        check_config(cfg)
    assert [line.split(": ")[0] for line in refused.value.problems] == ["reward.reward"]
