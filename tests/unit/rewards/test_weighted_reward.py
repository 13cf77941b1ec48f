import pickle
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from ada_lightning.config.check import ConfigError, check_config
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.exact_match import ExactMatchReward
from ada_lightning.rewards.extraction import LastNumber
from ada_lightning.rewards.format import FormatReward
from ada_lightning.rewards.math import MathReward
from ada_lightning.rewards.not_applicable import NotApplicableError
from ada_lightning.rewards.trl_function import TrlFunctionReward
from ada_lightning.rewards.verl_function import VerlFunctionReward
from ada_lightning.rewards.weighted import WeightedReward

CONF = str(Path(__file__).resolve().parents[3] / "conf")
FUNCTIONS = "tests.unit.rewards.user_functions"
PROMPT = Prompt("id", (), {"answer": 12})


def part(reward, weight):
    return {"reward": reward, "weight": weight}


def make(**rewards):
    return WeightedReward(rewards)


def test_the_reward_is_the_weighted_sum_and_components_come_before_their_weights():
    reward = make(
        shape=part(FormatReward(r"It is [0-9]+\."), 0.25),
        correct=part(ExactMatchReward(LastNumber()), 2),
        long=part(FormatReward(".{40,}"), -1.0),
    )
    verdict = reward(PROMPT, Completion("It is 12."))
    assert verdict == Verdict(2.25, "12", {"shape": 1.0, "correct": 1.0, "long": 0.0})


def test_components_of_components_have_their_name():
    reward = make(verl=part(VerlFunctionReward(f"{FUNCTIONS}.verl_mapping"), 0.5))
    assert reward(PROMPT, Completion("12")) == Verdict(0.5, "12", {"verl": 1.0, "verl/acc": 1.0})


def test_a_component_that_does_not_apply_is_left_out_and_one_that_fails_fails_the_grade():
    sometimes, always = TrlFunctionReward(f"{FUNCTIONS}.trl_async"), FormatReward(".*")
    assert make(some=part(sometimes, 1.0), all=part(always, 1.0))(PROMPT, Completion("?")) == Verdict(
        1.0, None, {"all": 1.0}
    )
    with pytest.raises(NotApplicableError, match="none of some applies"):
        make(some=part(sometimes, 1.0))(PROMPT, Completion("?"))
    with pytest.raises(KeyError, match="answer"):
        make(correct=part(ExactMatchReward(LastNumber()), 1.0), all=part(always, 1.0))(
            Prompt("id", ()), Completion("?")
        )


def test_checks_reach_the_components():
    broken = VerlFunctionReward(f"{FUNCTIONS}.verl_wrong")
    with pytest.raises(ValueError, match=r"^verl: .*needs 'solution', 'truth'"):
        make(verl=part(broken, 1.0), shape=part(FormatReward("a"), 1.0)).check()
    with pytest.raises(ValueError, match=r"^correct: its reference has no answer"):
        make(shape=part(FormatReward("a"), 1), correct=part(ExactMatchReward(LastNumber()), 1)).check_prompt(
            Prompt("", ())
        )


def test_a_sum_is_remembered_only_where_all_components_may_be():
    pure, impure = FormatReward("a"), TrlFunctionReward(f"{FUNCTIONS}.trl_reward")
    assert make(a=part(pure, 1)).cacheable
    assert not make(a=part(pure, 1), b=part(impure, 1)).cacheable


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ({}, "rewards is empty"),
        ({"a@1": part(FormatReward("a"), 1)}, r"rewards\.a@1: use letters"),
        ({"a": {"reward": FormatReward("a")}}, "must hold reward and weight, and nothing else; found reward"),
        ({"a": {**part(FormatReward("a"), 1), "wieght": 2}}, "found reward, weight, wieght"),
        ({"a": FormatReward("a")}, "must hold reward and weight"),
        ({"a": part(FormatReward("a"), float("nan"))}, "weight must be a finite number; got nan"),
        ({"a": part(FormatReward("a"), "1")}, "weight must be a finite number; got '1'"),
        ({"a": part({"pattern": "a"}, 1)}, r"rewards\.a\.reward is no reward; it needs a _target_"),
    ],
)
def test_what_is_no_weighted_sum_is_refused(rewards, message):
    with pytest.raises(ValueError, match=message):
        WeightedReward(rewards)


def test_a_pattern_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"FormatReward: pattern = '\(' is no regular expression: missing \)"):
        FormatReward("(")


@pytest.mark.parametrize(
    ("text", "expected"), [("a\nb", 1.0), (" a\nb\n", 1.0), ("a b c", 0.0), ("", 0.0), ("xa b", 0.0)]
)
def test_the_whole_response_must_have_the_form(text, expected):
    assert FormatReward("a.b")(PROMPT, Completion(text)) == expected


def composed(*overrides):
    with initialize_config_dir(CONF, version_base="1.3"):
        return compose("train", ["run_name=test", *overrides])


def test_the_shipped_configuration_is_a_reward_that_travels():
    reward = pickle.loads(pickle.dumps(instantiate(composed("reward=weighted").reward.reward)))
    verdict = reward(PROMPT, Completion("6 + 6 = 12\n<answer>12</answer>"))
    assert verdict == Verdict(1.1, "12", {"correct": 1.0, "format": 1.0})
    assert reward(PROMPT, Completion("12")) == Verdict(0.0, None, {"correct": 0.0, "format": 0.0})


def test_a_sum_needs_an_advantage_that_knows_more_than_right_and_wrong():
    with pytest.raises(ConfigError) as error:
        check_config(composed("+experiment=ada_seq_balance", "reward=weighted"))
    assert any("a weighted sum, and advantage = ExactAdvantage" in problem for problem in error.value.problems)
    follows_means = ["advantage=weighted_leave_one_out", "selection=stratified", "sampler=spread"]
    check_config(composed("reward=weighted", *follows_means))


def test_late_imports_of_the_components_are_known():
    parts = {"math": {"reward": MathReward(), "weight": 1.0}, "other": {"reward": FormatReward("x"), "weight": 1.0}}
    assert WeightedReward(parts).modules == MathReward.modules
