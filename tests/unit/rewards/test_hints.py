"""What a run says of its reward where no answer may ever be found."""

from __future__ import annotations

import re

import pytest

from ada_lightning.core.records import Prompt, Response
from ada_lightning.rewards.by_task import TaskReward
from ada_lightning.rewards.combined import with_parts
from ada_lightning.rewards.exact_match import ExactMatchReward
from ada_lightning.rewards.extraction import AnswerLine, FirstOf, LastBoxed, LastNumber, TaggedAnswer
from ada_lightning.rewards.format import FormatReward
from ada_lightning.rewards.function import FunctionReward
from ada_lightning.rewards.hints import equal_rewards, start_lines
from ada_lightning.rewards.math import MathReward
from ada_lightning.rewards.trl_function import TrlFunctionReward
from ada_lightning.rewards.verl_function import VerlFunctionReward

FUNCTIONS = "tests.unit.rewards.user_functions"


class Tokenizer:
    """Decodes every prompt to one text."""

    def __init__(self, shown):
        self.shown = shown

    def decode(self, ids):
        return self.shown


def said(reward, *texts, shown=""):
    prompts = [Prompt(text, ({"role": "user", "content": text},)) for text in texts]
    return start_lines(reward, prompts, Tokenizer(shown or texts[0]))


DAPO = "What is 6 + 6? The last line should be of the form Answer: $Answer"
BOX = r"no prompt asks for \boxed, and MathReward finds no answer without it: other responses are worth 0."


@pytest.mark.parametrize(
    ("reward", "texts", "parts"),
    [
        (MathReward(), ["What is 6 + 6?"], [BOX, 'ask for a last line "Answer: ..."']),
        (MathReward(), ["Put it into \\boxed{}.", "What is 6 + 6?"], []),
        (MathReward(), [DAPO], ['or read the "Answer: ..." that prompts ask for: reward.reward']),
        (MathReward(AnswerLine()), [DAPO], []),
        (MathReward(AnswerLine()), ["What is 6 + 6?"], ["no prompt asks for answer:", "name another"]),
        (MathReward(FirstOf([LastBoxed(), AnswerLine()])), ["6 + 6"], [r"asks for \boxed or answer:"]),
        (MathReward(FirstOf([LastBoxed(), LastNumber()])), ["6 + 6"], []),
        (MathReward(thinking="ignore"), ["6 + 6"], [BOX]),
        (ExactMatchReward(TaggedAnswer()), ["6 + 6"], ["no prompt asks for <answer>, and ExactMatchReward"]),
        (ExactMatchReward(LastNumber()), ["6 + 6"], []),
        (TaskReward({"sums": MathReward()}), ["6 + 6"], [BOX]),
    ],
)  # fmt: skip
def test_a_reward_whose_prompts_ask_for_nothing_that_it_reads_is_named_at_the_start(reward, texts, parts):
    lines = said(reward, *texts)
    assert len(lines) == bool(parts)
    assert all(part in lines[0] for part in parts)


def test_a_chat_template_may_ask_for_the_box():
    assert said(MathReward(), "6 + 6", shown=r"<system>Put it into \boxed{}.<user>6 + 6<assistant>") == []


PATTERN = r"<think>.+</think>\s*<answer>[^<]+</answer>"


@pytest.mark.parametrize(
    ("reward", "shown", "part"),
    [
        (MathReward(LastNumber()), "<assistant><think>\n", "thinking=opened takes only what stands behind </think>"),
        (MathReward(LastNumber(), thinking="ignore"), "<think>", "counts where the response is cut before </think>"),
        (MathReward(LastNumber(), thinking="opened"), "<think>", ""),
        (MathReward(LastNumber(), thinking="opened"), "<assistant>", "thinking=ignore takes them as they are"),
        (MathReward(LastNumber()), "<assistant><think>\n\n</think>\n\n", ""),
        (FormatReward(PATTERN), "<think>\n", "asks the response for it; write (?:<think>)? there"),
        (FormatReward("(?:<think>)?" + PATTERN.removeprefix("<think>")), "<think>\n", ""),
        (FormatReward(PATTERN), "<assistant>", ""),
    ],
)
def test_a_reward_and_a_chat_template_that_disagree_about_thinking_are_named(reward, shown, part):
    lines = said(reward, "6 + 6", shown=shown)
    assert len(lines) == bool(part)
    assert not part or part in lines[0]


class OwnReward:
    """Of a user, with attributes that mean something else in rewards of the package."""

    def __init__(self):
        self.pattern, self.parts, self.thinking = re.compile("x"), ["a"], True


def test_attributes_of_a_reward_of_ones_own_are_not_taken_for_those_of_the_package():
    assert said(OwnReward(), "6 + 6", shown="<think>") == []
    assert len(list(with_parts(OwnReward()))) == 1
    assert "all 16 rewards" in equal_rewards(OwnReward(), EQUAL, "of the preview")


def responses(*rewards, answer=None, is_truncated=False):
    return [
        Response(
            prompt_id="id", sample_index=index, round_index=0, response_ids=(1,), sampling_logprobs=(0.0,), text="",
            is_truncated=is_truncated, reward=reward, is_positive=False, policy_version=0, answer=answer,
        )
        for index, reward in enumerate(rewards)
    ]  # fmt: skip


EQUAL = responses(*[0.0] * 16)


@pytest.mark.parametrize(
    ("reward", "drawn", "parts"),
    [
        (MathReward(), EQUAL, ["all 16 rewards of the preview are 0", "no answer was found in any"]),
        (MathReward(), responses(*[1.0] * 16, answer="4"), ["all 16 rewards of the preview are 1", "too easy"]),
        (MathReward(), responses(*[0.0] * 16, is_truncated=True), ["16 of them were cut by the length limit"]),
        (MathReward(), responses(*[0.0] * 15, 1.0), []),
        (MathReward(), responses(*[0.0] * 15), []),
        (VerlFunctionReward(f"{FUNCTIONS}.verl_first_year"), EQUAL, ["looks for 'Assistant:'", "the response alone"]),
        (TrlFunctionReward(f"{FUNCTIONS}.trl_reward"), EQUAL, ["one that compares the responses of a batch"]),
        (FunctionReward("textwrap.dedent"), EQUAL, ["too easy (docs/rewards.md)"]),
    ],
)  # fmt: skip
def test_equal_first_rewards_name_what_to_check(reward, drawn, parts):
    line = equal_rewards(reward, drawn, "of the preview")
    assert bool(line) == bool(parts)
    assert all(part in line for part in parts)
    assert isinstance(reward, MathReward) or "no answer was found" not in line
    assert "\n" not in line


def test_a_function_of_verls_batch_manager_is_told_why_it_cannot_be_used():
    with pytest.raises(ValueError, match="batch reward manager, and here a function is given one response at a time"):
        VerlFunctionReward(f"{FUNCTIONS}.verl_batch").check()
