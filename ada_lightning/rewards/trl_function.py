"""Grades with a reward function written for TRL's GRPOTrainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ada_lightning.core.records import Completion, Prompt
from ada_lightning.rewards.columns import sample_columns
from ada_lightning.rewards.not_applicable import NotApplicableError
from ada_lightning.rewards.user_function import UserFunction

NOT_GIVEN = ("completion_ids", "environments", "log_extra", "log_metric", "trainer_state")
"""What TRL gives its functions and a worker process has not."""


class TrlFunctionReward:
    """Calls ``def f(prompts, completions, **columns) -> list[float | None]``, plain or ``async``.

    As in TRL, everything is a list and is given by name: ``prompts``, ``completions`` and each of the sample's columns
    (``answer`` among them). Here the lists hold one sample: responses are graded as they finish, one by one, so a
    function that compares the responses of a batch cannot be used. ``None`` says that the function does not apply
    (:class:`~ada_lightning.rewards.not_applicable.NotApplicableError`).

    There are no ``completion_ids``, ``trainer_state``, ``log_extra``, ``log_metric`` and ``environments``. A column of
    the name ``prompt``, ``completion`` or ``completion_ids`` is not given either, as in TRL.

    Args:
        path: ``package.module.function``.
        conversational: as which kind of data set the function sees this one. True: a prompt is a list of turns, each
            with ``role`` and ``content``, and a completion is ``[{"role": "assistant", "content": text}]``. False:
            both are texts, the prompt its turns' contents joined by an empty line.
        arguments: constants for parameters of these names, given as they are.
        cacheable: as for :class:`~ada_lightning.rewards.function.FunctionReward`.

    Raises:
        ValueError: ``path`` names no function, or ``arguments`` has a name that means something else.
    """

    def __init__(
        self,
        path: str,
        *,
        conversational: bool = True,
        arguments: Mapping[str, Any] | None = None,
        cacheable: bool = False,
    ) -> None:
        self.function = UserFunction(path)
        self.conversational = conversational
        self.arguments = dict(arguments or {})
        self.cacheable = cacheable
        if taken := sorted({"prompts", "completions"} & set(self.arguments)):
            raise ValueError(f"reward.reward.arguments.{taken[0]}: the function gets the sample's own {taken[0]!r}")

    def __call__(self, prompt: Prompt, completion: Completion) -> float:
        """Grade one response.

        Raises:
            NotApplicableError: the function returned None for it.
            TypeError: the function returned no list of one element.
        """
        rewards = self.function.call(self._available(prompt, completion))
        if not isinstance(rewards, Sequence) and not hasattr(rewards, "tolist"):
            raise TypeError(f"{self.function.path} must return a list with a reward per completion; got {rewards!r}")
        if len(rewards) != 1:
            raise TypeError(f"{self.function.path} returned {len(rewards)} rewards for 1 completion")
        if rewards[0] is None:
            raise NotApplicableError(f"{self.function.path} returned None")
        reward: float = rewards[0]
        return reward

    def check(self) -> None:
        """Import the function.

        Raises:
            ValueError: it cannot be imported, or requires what there is not.
        """
        self.function.check()
        if unknown := sorted(set(self.arguments) - self.function.accepted(self.arguments)):
            raise ValueError(
                f"reward.reward.arguments.{unknown[0]}: {self.function.path} has no parameter of this name"
            )
        if wanted := sorted(self.function.required() & set(NOT_GIVEN) - set(self.arguments)):
            raise ValueError(
                f"{self.function.path} requires {', '.join(wanted)}, which TRL's trainer has and a reward process has "
                "not: it sees prompts, texts and columns; give the parameter a default or write the function anew for "
                "reward=function"
            )

    def check_prompt(self, prompt: Prompt) -> None:
        """Compare what the function requires with this sample's columns.

        Raises:
            ValueError: something is missing.
        """
        self.function.check_names(self._available(prompt, Completion("")), "what this sample has")

    def _available(self, prompt: Prompt, completion: Completion) -> dict[str, Any]:
        kept_from_it = {"prompt", "completion", "completion_ids"}
        columns = {name: [value] for name, value in sample_columns(prompt).items() if name not in kept_from_it}
        if self.conversational:
            prompts: list[Any] = [[dict(message) for message in prompt.messages]]
            completions: list[Any] = [[{"role": "assistant", "content": completion.text}]]
        else:
            prompts = ["\n\n".join(message["content"] for message in prompt.messages)]
            completions = [completion.text]
        return {**columns, **self.arguments, "prompts": prompts, "completions": completions}
