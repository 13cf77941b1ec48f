"""Grades with a reward function written for TRL's GRPOTrainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ada_lightning.core.options import option
from ada_lightning.core.records import Completion, Prompt
from ada_lightning.rewards.failures import NotApplicableError
from ada_lightning.rewards.user_function import UserFunctionReward, sample_columns

NOT_GIVEN = ("completion_ids", "environments", "log_extra", "log_metric", "trainer_state")
"""What TRL gives its functions and a worker process has not."""


@option("reward", "trl_function", below="reward", defaults=["_pool"], _convert_="all", path="???", arguments={})
class TrlFunctionReward(UserFunctionReward):
    """A reward function written for TRL: ``def f(prompts, completions, **columns) -> list[float | None]``.

    Plain or ``async``. As in TRL, everything is a list and is given by name: ``prompts``, ``completions`` and each of
    the sample's columns (``answer`` among them). Here the lists hold one sample: responses are graded as they finish,
    one by one, so a function that compares the responses of a batch cannot be used. ``None`` says that the function
    does not apply (:class:`~ada_lightning.rewards.failures.NotApplicableError`).

    There are no ``completion_ids``, ``trainer_state``, ``log_extra``, ``log_metric`` and ``environments``. A column of
    the name ``prompt``, ``completion`` or ``completion_ids`` is not given either, as in TRL.

    Args:
        path: ``package.module.function``.
        conversational: as which kind of data set the function sees this one. True: a prompt is a list of turns, each
            with ``role`` and ``content``, and a completion is ``[{"role": "assistant", "content": text}]``. False:
            both are texts, the prompt its turns' contents joined by an empty line.
        arguments: constants for parameters of these names, given as they are.
        cacheable: whether equal responses to a prompt get equal rewards, so that a grade can be remembered.
    """

    own_names = ("prompts", "completions")

    def __init__(
        self,
        path: str,
        *,
        conversational: bool = True,
        arguments: Mapping[str, Any] | None = None,
        cacheable: bool = False,
    ) -> None:
        super().__init__(path, arguments=arguments, cacheable=cacheable)
        self.conversational = conversational

    @property
    def hint(self) -> str:
        """What may be wrong where all its rewards are equal."""
        batch = (
            f"{self.function.path} gets lists of one response: one that compares the responses of a batch gives "
            "all of them the same"
        )
        return "; ".join(filter(None, (super().hint, batch)))

    def graded(self, returned: Any) -> float:
        """Take the one reward out of its list.

        Raises:
            NotApplicableError: it is None.
            TypeError: the function returned no list of one element.
        """
        if not isinstance(returned, Sequence) and not hasattr(returned, "tolist"):
            raise TypeError(f"{self.function.path} must return a list with a reward per completion; got {returned!r}")
        if len(returned) != 1:
            raise TypeError(f"{self.function.path} returned {len(returned)} rewards for 1 completion")
        if returned[0] is None:
            raise NotApplicableError(f"{self.function.path} returned None")
        reward: float = returned[0]
        return reward

    def check(self) -> None:
        """Import the function.

        Raises:
            ValueError: it cannot be imported, or requires what there is not.
        """
        super().check()
        if wanted := sorted(self.function.required() & set(NOT_GIVEN) - set(self.arguments)):
            raise ValueError(
                f"{self.function.path} requires {', '.join(wanted)}, which TRL's trainer has and a reward process has "
                "not: it sees prompts, texts and columns; give the parameter a default or write the function anew for "
                "reward=function"
            )

    def available(self, prompt: Prompt, completion: Completion) -> dict[str, Any]:
        """Return what the function may ask for, by name."""
        kept_from_it = {"prompt", "completion", "completion_ids"}
        columns = {name: [value] for name, value in sample_columns(prompt).items() if name not in kept_from_it}
        if self.conversational:
            prompts: list[Any] = [[dict(message) for message in prompt.messages]]
            completions: list[Any] = [[{"role": "assistant", "content": completion.text}]]
        else:
            prompts = ["\n\n".join(message["content"] for message in prompt.messages)]
            completions = [completion.text]
        return {**columns, **self.arguments, "prompts": prompts, "completions": completions}
