"""Rewards made of others: by task, weighted, with a penalty of length."""

import pickle
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from ada_lightning.config.check import ConfigError, check_config
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.by_task import TaskReward
from ada_lightning.rewards.exact_match import ExactMatchReward
from ada_lightning.rewards.extraction import LastNumber
from ada_lightning.rewards.failures import NotApplicableError
from ada_lightning.rewards.format import FormatReward
from ada_lightning.rewards.math import MathReward
from ada_lightning.rewards.overlong import OverlongReward
from ada_lightning.rewards.trl_function import TrlFunctionReward
from ada_lightning.rewards.verdict_cache import VerdictCache
from ada_lightning.rewards.verl_function import VerlFunctionReward
from ada_lightning.rewards.weighted import WeightedReward
from ada_lightning.rewards.worker import to_grade

CONF = str(Path(__file__).resolve().parents[3] / "conf")
FUNCTIONS = "tests.unit.rewards.user_functions"
PROMPT = Prompt("id", (), {"answer": 12})
NUMBER, ANYTHING = ExactMatchReward(LastNumber()), FormatReward(".*")
SOMETIMES = TrlFunctionReward(f"{FUNCTIONS}.trl_async")  # not cacheable; does not apply to "?"
BROKEN = VerlFunctionReward(f"{FUNCTIONS}.verl_wrong")


def weighted(**rewards):
    """By name: a reward, or a reward and its weight."""
    parts = {name: part if isinstance(part, tuple) else (part, 1.0) for name, part in rewards.items()}
    return WeightedReward({name: {"reward": reward, "weight": weight} for name, (reward, weight) in parts.items()})


def overlong(reward=NUMBER, **options):
    return OverlongReward(reward, **{"max_tokens": 20480, **options})


WRAPPERS = {
    "by_task": lambda *rewards: TaskReward({str(i): r for i, r in enumerate(rewards)}),
    "default": lambda *rewards: TaskReward({"other": ANYTHING}, default=rewards[-1]),
    "weighted": lambda *rewards: weighted(**{f"part{i}": r for i, r in enumerate(rewards)}),
    "overlong": lambda *rewards: overlong(rewards[-1]),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_the_parts_say_of_themselves_is_passed_on(wrapper):
    wrap = WRAPPERS[wrapper]
    assert wrap(ANYTHING, MathReward()).modules == MathReward.modules
    assert wrap(ANYTHING, NUMBER).cacheable
    assert not wrap(ANYTHING, SOMETIMES).cacheable
    wrap(ANYTHING, NUMBER).check()
    with pytest.raises(ValueError, match="needs 'solution', 'truth'"):
        wrap(ANYTHING, BROKEN).check()
    with pytest.raises(ValueError, match="its reference has no answer"):
        wrap(ANYTHING, NUMBER).check_prompt(Prompt("", (), task="1"))
    assert pickle.loads(pickle.dumps(wrap(ANYTHING, NUMBER))).cacheable


def test_errors_of_a_part_name_it():
    with pytest.raises(ValueError, match=r"^reward\.reward\.rewards\.sums: .*; reward\.reward\.default: "):
        TaskReward({"sums": BROKEN}, default=BROKEN).check()
    with pytest.raises(ValueError, match=r"^verl: .*needs 'solution'"):
        weighted(verl=BROKEN, shape=ANYTHING).check()
    with pytest.raises(ValueError, match=r"^correct: its reference has no answer"):
        weighted(shape=ANYTHING, correct=NUMBER).check_prompt(Prompt("", ()))


def test_every_prompt_is_graded_and_checked_by_the_reward_of_its_task():
    reward = TaskReward({"sums": NUMBER, "free": ANYTHING})
    assert reward(Prompt("id", (), {"answer": 12}, "sums"), Completion("13")).reward == 0.0
    assert reward(Prompt("id", (), {}, "free"), Completion("13")) == 1.0
    reward.check_prompt(Prompt("id", (), {}, "free"))
    for asked in (reward.check_prompt, lambda prompt: reward(prompt, Completion(""))):
        with pytest.raises(ValueError, match=r"no reward for the task 'math'; reward\.reward\.rewards has: sums, free"):
            asked(Prompt("id", (), {}, "math"))
    with_default = TaskReward({"sums": NUMBER}, default=ANYTHING)
    assert with_default(Prompt("id", (), {}, "math"), Completion("")) == 1.0
    with pytest.raises(ValueError, match="rewards is empty"):
        TaskReward({})


def test_the_reward_is_the_weighted_sum_and_components_come_before_their_weights():
    verl = VerlFunctionReward(f"{FUNCTIONS}.verl_mapping")
    reward = weighted(shape=(FormatReward(r".*[0-9]+\."), 0.25), correct=(NUMBER, 2), long=(FormatReward(".{40,}"), -1))
    parts = {"shape": 1.0, "correct": 1.0, "long": 0.0}
    assert reward(PROMPT, Completion("It is 12.")) == Verdict(2.25, "12", parts)
    assert weighted(verl=(verl, 0.5))(PROMPT, Completion("12")) == Verdict(0.5, "12", {"verl": 1.0, "verl/acc": 1.0})


def test_a_component_that_does_not_apply_is_left_out_and_one_that_fails_fails_the_grade():
    some, all_ = weighted(some=SOMETIMES), weighted(some=SOMETIMES, all=ANYTHING)
    assert all_(PROMPT, Completion("?")) == Verdict(1.0, None, {"all": 1.0})
    with pytest.raises(NotApplicableError, match="none of some applies"):
        some(PROMPT, Completion("?"))
    with pytest.raises(KeyError, match="answer"):
        weighted(correct=NUMBER, all=ANYTHING)(Prompt("id", ()), Completion("?"))


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ({}, "rewards is empty"),
        ({"a@1": {"reward": ANYTHING, "weight": 1}}, r"rewards\.a@1: use letters"),
        ({"a": {"reward": ANYTHING}}, "must have reward and weight, and nothing else; found reward"),
        ({"a": {"reward": ANYTHING, "weight": 1, "wieght": 2}}, "found reward, weight, wieght"),
        ({"a": ANYTHING}, "must have reward and weight"),
        ({"a": {"reward": ANYTHING, "weight": float("nan")}}, "weight must be a finite number; got nan"),
        ({"a": {"reward": ANYTHING, "weight": "1"}}, "weight must be a finite number; got '1'"),
        ({"a": {"reward": {"pattern": "a"}, "weight": 1}}, r"rewards\.a\.reward is not a reward; it needs a _target_"),
    ],
)
def test_what_is_no_weighted_sum_is_refused(rewards, message):
    with pytest.raises(ValueError, match=message):
        WeightedReward(rewards)


@pytest.mark.parametrize(
    ("num_tokens", "penalty"),
    [(0, 0.0), (16384, 0.0), (16385, -1 / 4096), (18432, -0.5), (20480, -1.0), (30000, -1.0)],
)
def test_dapos_figures(num_tokens, penalty):
    """L = 20480, c = 4096: eq. 13 of arXiv:2503.14476."""
    verdict = overlong()(PROMPT, Completion("12", num_tokens=num_tokens))
    assert verdict.reward == pytest.approx(1.0 + penalty)
    assert verdict.components == {"correct": 1.0, "overlong": pytest.approx(penalty)}
    assert verdict.answer == "12"
    assert overlong()(PROMPT, Completion("13", num_tokens=num_tokens)).reward == pytest.approx(penalty)
    assert str(overlong(factor=0.0)(PROMPT, Completion("13", num_tokens=num_tokens)).components["overlong"]) == "0.0"


def test_equal_texts_of_other_lengths_are_other_responses_to_the_cache():
    cache = VerdictCache(overlong(), size=10)
    cache.put(cache.key(PROMPT, Completion("12", num_tokens=100)), Verdict(1.0))
    assert cache.get(cache.key(PROMPT, Completion("12", num_tokens=20000))) is None
    assert cache.get(cache.key(PROMPT, Completion("12", num_tokens=200))) is not None  # neither costs anything
    within = VerdictCache(WeightedReward({"all": {"reward": overlong(), "weight": 1.0}}), size=10)
    within.put(within.key(PROMPT, Completion("12", num_tokens=100)), Verdict(1.0))
    assert within.get(within.key(PROMPT, Completion("12", num_tokens=20000))) is None
    assert within.get(within.key(PROMPT, Completion("12", num_tokens=200))) is not None
    of_texts = overlong(ANYTHING, max_tokens=10)
    assert of_texts.cache_key(Completion("a", num_tokens=1)) != of_texts.cache_key(Completion("b", num_tokens=1))


def test_what_cannot_work_with_a_penalty_is_refused():
    with pytest.raises(ValueError, match=r"is not a reward; .*max_tokens .* 0; .*buffer_ratio .* 2; .*factor .* -1"):
        OverlongReward(3, max_tokens=0, buffer_ratio=2, factor=-1)
    with pytest.raises(ValueError, match="needs the number of tokens"):
        overlong()(PROMPT, Completion("12"))


def test_the_whole_response_must_have_the_form():
    for text, expected in [("a\nb", 1.0), (" a\nb\n", 1.0), ("a b c", 0.0), ("", 0.0), ("xa b", 0.0)]:
        assert FormatReward("a.b")(PROMPT, Completion(text)) == expected
    with pytest.raises(ValueError, match=r"FormatReward: pattern = '\(' is no regular expression: missing \)"):
        FormatReward("(")


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
    check_config(
        composed("reward=weighted", "advantage=weighted_leave_one_out", "selection=stratified", "sampler=spread")
    )


def test_a_verdict_that_says_that_grading_failed_is_none_of_a_reward():
    """Left in silence it would be taken for a reward that was given; a reward that cannot grade raises."""
    wrong = Verdict(1.0, failure="judge is down")
    assert to_grade(wrong) == Verdict(0.0, failure="invalid_reward")
    with pytest.raises(ValueError, match="must raise an error if it cannot grade"):
        weighted(judge=(lambda prompt, completion: wrong, 1.0))(PROMPT, Completion("12"))
