from __future__ import annotations

import pickle

import pytest

from ada_lightning.core.records import Completion, Grade, Prompt
from ada_lightning.rewards.exact_match import ExactMatchReward
from ada_lightning.rewards.extraction import LastNumber
from ada_lightning.rewards.format import FormatReward
from ada_lightning.rewards.math import MathReward
from ada_lightning.rewards.overlong import OverlongReward
from ada_lightning.rewards.pool import RewardPool
from ada_lightning.rewards.verdict_cache import VerdictCache

PROMPT = Prompt("id", (), {"answer": "12"})


def make(**options):
    return OverlongReward(ExactMatchReward(LastNumber()), **{"max_tokens": 20480, **options})


@pytest.mark.parametrize(
    ("num_tokens", "penalty"),
    [(0, 0.0), (16384, 0.0), (16385, -1 / 4096), (18432, -0.5), (20480, -1.0), (30000, -1.0)],
)
def test_dapos_figures(num_tokens, penalty):
    """L = 20480, c = 4096: eq. 13 of arXiv:2503.14476."""
    verdict = make()(PROMPT, Completion("12", num_tokens=num_tokens))
    assert verdict.reward == pytest.approx(1.0 + penalty)
    assert verdict.components == {"correct": 1.0, "overlong": pytest.approx(penalty)}
    assert verdict.answer == "12"
    assert make()(PROMPT, Completion("13", num_tokens=num_tokens)).reward == pytest.approx(penalty)


def test_no_penalty_is_a_plain_zero():
    assert str(make(factor=0.0)(PROMPT, Completion("13", num_tokens=20480)).components["overlong"]) == "0.0"


def test_a_length_that_nobody_told_is_an_error_and_no_reward():
    with pytest.raises(ValueError, match="needs the number of tokens"):
        make()(PROMPT, Completion("12"))


def test_equal_texts_of_other_lengths_are_other_responses_to_the_cache():
    cache = VerdictCache(make(), size=10)
    short, long = Completion("12", num_tokens=100), Completion("12", num_tokens=20000)
    cache.put(cache.key(PROMPT, short), Grade(1.0))
    assert cache.get(cache.key(PROMPT, long)) is None
    assert cache.get(cache.key(PROMPT, Completion("12", num_tokens=200))) is not None  # neither costs anything
    of_answers = OverlongReward(FormatReward(".*"), max_tokens=10)
    assert of_answers.cache_key(Completion("a", num_tokens=1)) != of_answers.cache_key(Completion("b", num_tokens=1))


def test_what_the_inner_reward_says_of_itself_is_passed_on():
    reward = make()
    assert reward.cacheable
    reward.check()
    with pytest.raises(ValueError, match="answer"):
        reward.check_prompt(Prompt("id", (), {}))
    assert pickle.loads(pickle.dumps(reward)).max_tokens == 20480


def test_worker_processes_grade_with_it():
    pool = RewardPool(make())
    try:
        pool.submit("a", PROMPT, Completion("12", "length", num_tokens=20480))
        ((_, grade),) = pool.wait(60)
    finally:
        pool.close()
    assert (grade.reward, grade.components["overlong"]) == (0.0, -1.0)


def test_what_cannot_work_is_refused_at_once():
    with pytest.raises(ValueError, match=r"is no reward; .*max_tokens .* 0; .*buffer_ratio .* 2; .*factor .* -1"):
        OverlongReward(3, max_tokens=0, buffer_ratio=2, factor=-1)


def test_late_imports_of_the_inner_reward_are_known():
    assert OverlongReward(MathReward(), max_tokens=10).modules == MathReward.modules
