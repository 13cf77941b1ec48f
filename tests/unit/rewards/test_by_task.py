import pickle

import pytest

from ada_lightning.core.records import Completion, Prompt
from ada_lightning.rewards.by_task import TaskReward
from ada_lightning.rewards.format import FormatReward
from ada_lightning.rewards.math import MathReward


class Fixed:
    """Grades everything alike, and refuses prompts without an answer."""

    def __init__(self, reward):
        self.reward = reward

    def __call__(self, prompt, completion):
        return self.reward

    def check_prompt(self, prompt):
        if "answer" not in prompt.reference:
            raise ValueError("no answer")


class Broken(Fixed):
    def check(self):
        raise ValueError("not installed")


def prompt(task, **reference):
    return Prompt("id", (), reference, task)


def test_every_prompt_is_graded_by_the_reward_of_its_task_also_in_another_process():
    reward = pickle.loads(pickle.dumps(TaskReward({"sums": Fixed(1.0), "code": Fixed(0.5)}, default=Fixed(0.0))))
    assert [reward(prompt(task), Completion("")) for task in ("code", "sums", "other")] == [0.5, 1.0, 0.0]


def test_prompts_are_checked_by_the_reward_of_their_task():
    reward = TaskReward({"sums": Fixed(1.0), "free": lambda prompt, completion: 1.0})
    reward.check_prompt(prompt("sums", answer="1"))
    reward.check_prompt(prompt("free"))
    with pytest.raises(ValueError, match="no answer"):
        reward.check_prompt(prompt("sums"))
    with pytest.raises(ValueError, match=r"no reward for the task 'math'; reward\.reward\.rewards has: sums, free"):
        reward.check_prompt(prompt("math"))
    with pytest.raises(ValueError, match="no reward for the task 'math'"):
        reward(prompt("math"), Completion(""))


def test_grades_are_remembered_only_where_every_reward_s_may_be():
    random_one = Fixed(1.0)
    random_one.cacheable = False
    assert TaskReward({"sums": Fixed(1.0)}, default=Fixed(0.0)).cacheable
    assert not TaskReward({"sums": Fixed(1.0), "code": random_one}).cacheable
    assert not TaskReward({"sums": Fixed(1.0)}, default=random_one).cacheable


def test_errors_of_a_reward_name_its_task():
    with pytest.raises(ValueError, match=r"reward\.reward\.rewards\.sums: not installed"):
        TaskReward({"sums": Broken(1.0)}).check()
    with pytest.raises(ValueError, match=r"reward\.reward\.default: not installed"):
        TaskReward({"sums": Fixed(1.0)}, default=Broken(1.0)).check()
    with pytest.raises(ValueError, match="rewards is empty"):
        TaskReward({})


def test_late_imports_of_all_rewards_are_known():
    assert TaskReward({"math": MathReward()}).modules == MathReward.modules
    assert TaskReward({"text": FormatReward("x")}, default=MathReward()).modules == MathReward.modules
