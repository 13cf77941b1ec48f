"""One reward for each task of a mixture."""

from __future__ import annotations

from collections.abc import Mapping

from ada_lightning.core.options import option
from ada_lightning.core.protocols import Reward
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.combined import CombinedReward


@option("reward", "by_task", below="reward", defaults=["_pool"], rewards={})
class TaskReward(CombinedReward):
    """One reward for each task, which is the source's name with ``data=mixture``.

    Name each as ``+reward.reward.rewards.sums={_target_: ada_lightning.rewards.exact_match.ExactMatchReward,
    extraction: {_target_: ada_lightning.rewards.extraction.LastNumber}}``.

    The task is the source's name in a mixture (:class:`~ada_lightning.data.mixture.MixtureSource`), and what the data
    set says (``data.source.task_column``, verl's ``data_source``) or ``data.source.task`` elsewhere.

    Args:
        rewards: reward by task.
        default: of tasks that have none; None refuses them at start.

    Raises:
        ValueError: no rewards.

    Example:
        >>> from ada_lightning.rewards.exact_match import ExactMatchReward
        >>> from ada_lightning.rewards.extraction import LastNumber
        >>> TaskReward({"math": ExactMatchReward(LastNumber())}).check_prompt(Prompt("id", (), task="code"))
        Traceback (most recent call last):
        ...
        ValueError: no reward for the task 'code'; reward.reward.rewards has: math
    """

    def __init__(self, rewards: Mapping[str, Reward], *, default: Reward | None = None) -> None:
        if not rewards:
            raise ValueError("reward.reward.rewards is empty; name a reward for each task of the prompts")
        self.rewards: dict[str, Reward] = {str(task): reward for task, reward in rewards.items()}
        self.default = default
        named = {f"reward.reward.rewards.{task}": reward for task, reward in self.rewards.items()}
        super().__init__(named if default is None else {**named, "reward.reward.default": default})

    @property
    def answers_without_reference(self) -> bool | None:
        """Whether the rewards of all tasks tell such answers."""
        told = self.answers_told()
        return False if False in told else None if None in told else True

    def __call__(self, prompt: Prompt, completion: Completion) -> float | Verdict:
        """Grade one response.

        Raises:
            ValueError: the prompt's task has no reward.
        """
        return self._of(prompt)(prompt, completion)

    def check_prompt(self, prompt: Prompt) -> None:
        """Let the reward of the prompt's task check it.

        Raises:
            ValueError: the task has no reward, or its reward cannot grade this prompt.
        """
        reward = self._of(prompt)
        if callable(check := getattr(reward, "check_prompt", None)):
            check(prompt)

    def _of(self, prompt: Prompt) -> Reward:
        reward = self.rewards.get(prompt.task, self.default)
        if reward is None:
            raise ValueError(
                f"no reward for the task {prompt.task!r}; reward.reward.rewards has: {', '.join(self.rewards)}"
            )
        return reward
