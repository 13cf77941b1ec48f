"""Finds prompts that can never be graded, before a model loads."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from ada_lightning.core.checks import by_kind
from ada_lightning.core.records import Prompt
from ada_lightning.rewards.pool import RewardPool

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
