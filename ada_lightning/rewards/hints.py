"""Hints about a reward: before the first response, and if all first rewards are equal."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from itertools import islice
from typing import Any

from ada_lightning.core.checks import by_kind
from ada_lightning.core.records import Prompt, Response
from ada_lightning.rewards.combined import with_parts
from ada_lightning.rewards.extraction import marks
from ada_lightning.rewards.format import FormatReward
from ada_lightning.rewards.pool import RewardPool
from ada_lightning.rewards.user_function import UserFunctionReward

_MAX_LISTED = 5
_MAX_CHARS = 60


def ungradable_prompts(grader: RewardPool, prompts: Sequence[Prompt], split: str) -> dict[str, str]:
    """Find the prompts whose reference the reward cannot use, and warn with their kinds and an example of each.

    Graded all the same, each of their responses would fail, or count as wrong whatever it says.

    Args:
        grader: whose reward decides; its workers are running afterwards where it has an opinion.
        prompts: of the run; one that comes several times is looked at once.
        split: what they are for, for the messages.

    Returns:
        Why, by prompt id.

    Raises:
        ValueError: there are prompts and none can be graded.
    """
    distinct = list({prompt.prompt_id: prompt for prompt in prompts}.values())
    errors = grader.check_references(distinct)
    if not errors:
        return {}
    refused = [(distinct[index], error) for index, error in errors.items()]
    kinds = by_kind(error for _, error in refused)
    listed = [
        f"  {count}, for example {refused[first][0].prompt_id} ({_shortened(refused[first][0])}): {refused[first][1]}"
        for count, first in kinds[:_MAX_LISTED]
    ]
    if more := kinds[_MAX_LISTED:]:
        listed.append(f"  {sum(count for count, _ in more)} of {len(more)} more kinds")
    name = type(grader.reward).__name__
    if len(errors) == len(distinct):
        grader.close()
        first = refused[kinds[0][1]][1] if len(kinds) == 1 else "\n".join(["by kind:", *listed])
        raise ValueError(f"{name} can grade none of the {len(distinct)} {split} prompts: {first}")
    warnings.warn(
        "\n".join(
            [f"{name} cannot grade {len(errors)} of {len(distinct)} {split} prompts, which are left out:", *listed]
        ),
        stacklevel=2,
    )
    return {distinct[index].prompt_id: error for index, error in errors.items()}


def _shortened(prompt: Prompt) -> str:
    text = prompt.messages[-1]["content"] if prompt.messages else ""
    return repr(text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}...")


_ANSWER_LINE = "reward.reward.extraction._target_=ada_lightning.rewards.extraction.AnswerLine"
_MAX_PROMPTS = 1000
_MIN_REWARDS = 16
"""Fewer may be equal by chance."""


def start_lines(reward: Any, prompts: Sequence[Prompt], tokenizer: Any) -> list[str]:
    """Compare what a reward looks for with what the prompts ask for.

    Args:
        reward: of the run; the parts of a combined one are looked at.
        prompts: to train on, encoded; the first 1,000 are read.
        tokenizer: that encoded them, to see what the chat template adds to the first.

    Returns:
        A warning for each thing that does not go together.
    """
    texts = [turn["content"].lower() for prompt in islice(prompts, _MAX_PROMPTS) for turn in prompt.messages]
    shown = tokenizer.decode(prompts[0].prompt_ids)
    is_opened = shown.rstrip().endswith("<think>")
    lines = [
        line
        for part in with_parts(reward)
        for line in (_unasked(part, [*texts, shown.lower()]), _thinking(part, is_opened))
        if line
    ]
    return [f"warning: {line}" for line in dict.fromkeys(lines)]


def equal_rewards(reward: Any, responses: Sequence[Response], where: str) -> str:
    """Say what to check where the first rewards are all equal; empty where they are not, or there are too few.

    Args:
        reward: that gave them.
        responses: of the first rollout.
        where: of which rollout, such as ``of the preview``.
    """
    values = {response.reward for response in responses}
    if len(responses) < _MIN_REWARDS or len(values) != 1:
        return ""
    num_truncated = sum(response.is_truncated for response in responses)
    parts = list(with_parts(reward))
    tells_answers = any(hasattr(part, "extraction") for part in parts)
    has_none = tells_answers and all(response.answer is None for response in responses)
    causes = [
        "no answer was found in any of them" if has_none else "",
        f"{num_truncated} of them were cut by the length limit" if num_truncated else "",
        *(part.hint for part in parts if isinstance(part, UserFunctionReward)),
    ]
    found = "; ".join(filter(None, causes))
    return (
        f"warning: all {len(responses)} rewards {where} are {values.pop():g}, so there is nothing to learn from. Check "
        "whether responses state the answer where the reward looks for it, and whether the prompts are far too hard or "
        f"too easy (docs/rewards.md){f': {found}' if found else ''}"
    )


def _unasked(reward: Any, texts: Sequence[str]) -> str:
    """Say where no prompt asks for what an extraction needs."""
    extraction = getattr(reward, "extraction", None)
    needed = () if extraction is None else marks(extraction)
    if not needed or any(mark in text for text in texts for mark in needed):
        return ""
    if any("answer:" in text for text in texts):
        other = f'read the "Answer: ..." that prompts ask for: {_ANSWER_LINE}'
    elif "answer:" in needed:
        other = "name another reward.reward.extraction"
    else:
        other = f'ask for a last line "Answer: ..." and read that: {_ANSWER_LINE}'
    return (
        f"no prompt asks for {' or '.join(needed)}, and {type(reward).__name__} finds no answer without it: other "
        f"responses are worth 0. Ask for it in data.source.system_prompt, or {other}"
    )


def _thinking(reward: Any, is_opened: bool) -> str:
    """Say where a reward and the chat template disagree about who opens the thinking."""
    thinking = getattr(reward, "thinking", None)
    if is_opened and thinking in ("keep", "ignore"):
        when = "" if thinking == "keep" else " where the response is cut before </think>"
        return (
            f"the chat template opens <think>, and an answer inside of the thinking counts{when}; "
            "reward.reward.thinking=opened takes only what stands behind </think>"
        )
    if not is_opened and thinking == "opened":
        return (
            "reward.reward.thinking=opened, and the prompts do not end with <think>: responses without </think> are "
            "worth 0; reward.reward.thinking=ignore takes them as they are"
        )
    pattern = reward.pattern if isinstance(reward, FormatReward) else ""
    if is_opened and "<think>" in pattern and not re.search(r"<think>\)[?*]", pattern):
        return (
            f"the chat template opens <think>, and the pattern {pattern!r} asks the response for it; "
            "write (?:<think>)? there"
        )
    return ""
