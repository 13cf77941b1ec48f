"""Rewards of this project as reward functions in TRL's format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ada_lightning.adapters.trl.grading import FROM_THE_TRAINER, RewardFunction
from ada_lightning.core.protocols import Reward
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.failures import raised


def graded_by(reward: Reward) -> RewardFunction:
    r"""Make a reward function in TRL's format of a reward of this project's, such as ``MathReward()``.

    The data set needs a column ``answer``. Responses are graded in this process, one by one, without the time limit of
    a run's workers. What the reward raises because of a response is worth 0; a file or server that fails, and a reward
    that does not apply, are None (:mod:`ada_lightning.rewards.failures`). The reward is not told whether the length
    limit cut a response.

    Args:
        reward: ``(Prompt, Completion) -> Verdict``, see :class:`~ada_lightning.core.protocols.Reward`. It sees all
            columns of the row as ``reference["columns"]``.

    Example:
        >>> from ada_lightning.rewards.math import MathReward
        >>> function = graded_by(MathReward())
        >>> answers = [r"so \boxed{\frac12}", r"\boxed{2}", "no box"]
        >>> function(prompts=["1/2?"] * 3, completions=answers, answer=["0.5"] * 3)
        [1.0, 0.0, 0.0]
    """

    def graded(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] = (),
        *,
        answer: Sequence[Any],
        **columns: Any,
    ) -> list[float | None]:
        found = []
        for place, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
            row = {name: values[place] for name, values in columns.items() if name not in FROM_THE_TRAINER}
            turns = ({"role": "user", "content": prompt},) if isinstance(prompt, str) else tuple(prompt)
            asked = Prompt("", turns, {"answer": answer[place], "columns": row})
            text = completion if isinstance(completion, str) else completion[-1]["content"]
            num_tokens = len(completion_ids[place]) if completion_ids else None
            found.append(_reward_of(reward, asked, Completion(text, num_tokens=num_tokens)))
        return found

    graded.__name__ = str(getattr(reward, "__name__", type(reward).__name__))
    return graded


def _reward_of(reward: Reward, prompt: Prompt, completion: Completion) -> float | None:
    found: Verdict | float
    try:
        found = reward(prompt, completion)
    except Exception as error:
        found, _ = raised(error, "")
    return found.reward if isinstance(found, Verdict) else float(found)
