"""Finds prompts that can never be graded, before a model loads."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from ada_lightning.rewards.pool import RewardPool
from ada_lightning.types import Prompt

_MAX_LISTED = 5


def gradable_prompts(grader: RewardPool, prompts: Sequence[Prompt], split: str) -> list[Prompt]:
    """Drop the prompts whose reference the reward cannot use, with a warning that lists the first of them.

    Graded all the same, each of their responses would fail, or count as wrong whatever it says.

    Args:
        grader: whose reward decides; its workers are running afterwards where it has an opinion.
        prompts: of the run.
        split: what they are for, for the messages.

    Returns:
        The others, in their order.

    Raises:
        ValueError: there are prompts and none can be graded.
    """
    errors = grader.check_references(prompts)
    if not errors:
        return list(prompts)
    listed = [
        f"  {prompts[index].prompt_id} ({_shortened(prompts[index])}): {error}"
        for index, error in list(errors.items())[:_MAX_LISTED]
    ]
    if len(errors) > _MAX_LISTED:
        listed.append(f"  and {len(errors) - _MAX_LISTED} more")
    name = type(grader.reward).__name__
    if len(errors) == len(prompts):
        grader.close()
        [(reason, count)] = Counter(errors.values()).most_common(1)
        first = reason if count == len(errors) else "\n".join([f"most often {reason}", *listed])
        raise ValueError(f"{name} can grade none of the {len(prompts)} {split} prompts: {first}")
    warnings.warn(
        "\n".join(
            [f"{name} cannot grade {len(errors)} of {len(prompts)} {split} prompts, which are left out:", *listed]
        ),
        stacklevel=2,
    )
    return [prompt for index, prompt in enumerate(prompts) if index not in errors]


def _shortened(prompt: Prompt, max_chars: int = 60) -> str:
    text = prompt.messages[-1]["content"] if prompt.messages else ""
    return repr(text if len(text) <= max_chars else f"{text[:max_chars]}...")
