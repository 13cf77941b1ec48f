"""Grades with the user's own function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.columns import sample_columns
from ada_lightning.rewards.user_function import UserFunction

OWN_NAMES = ("prompt", "completion", "text", "finish_reason", "reference", "columns")
_FOREIGN = (
    ("TRL", "trl_function", {"prompts", "completions"}),
    ("verl", "verl_function", {"data_source", "solution_str", "ground_truth", "extra_info"}),
)
"""Libraries whose functions have a reward of their own, and the parameters that they are known by."""


class FunctionReward:
    """Calls a function, plain or ``async``, that returns a finite number or a ``Verdict``.

    The function is given, by the names of its parameters, whatever it declares of

    - ``prompt``: the :class:`~ada_lightning.core.records.Prompt`,
    - ``completion``: the :class:`~ada_lightning.core.records.Completion`,
    - ``text``: the response's text, untrusted,
    - ``finish_reason``: ``"stop"``, or ``"length"`` where the length limit cut it,
    - ``reference``: all that the source keeps for grading, a mapping,
    - ``columns``: the sample's columns, a mapping,
    - each key of ``arguments``,
    - each of the sample's columns under its own name, and ``answer``.

    Of equal names the one further up counts. With ``**kwargs`` it gets all of them. It runs in reward workers (see
    :class:`~ada_lightning.rewards.user_function.UserFunction`). Raise where a response cannot be graded; return 0 where
    it is wrong. An ``async`` function that asks a server has one request under way in each worker: ``num_workers`` of
    them at once.

    Args:
        path: ``package.module.function``.
        arguments: constants for parameters of these names, such as the address of a server.
        cacheable: whether equal responses to a prompt get equal rewards, so that a grade can be remembered. False asks
            the function every time.

    Raises:
        ValueError: ``path`` names no function, or ``arguments`` has a name that means something else.

    Example:
        >>> reward = FunctionReward("textwrap.dedent")  # declares text; a real one returns a number
        >>> reward(Prompt("id", ()), Completion("  12"))
        '12'
    """

    def __init__(self, path: str, *, arguments: Mapping[str, Any] | None = None, cacheable: bool = False) -> None:
        self.function = UserFunction(path)
        self.arguments = dict(arguments or {})
        self.cacheable = cacheable
        taken = sorted(set(OWN_NAMES) & set(self.arguments))
        if taken:
            raise ValueError(
                f"reward.reward.arguments.{taken[0]}: the function gets the response's own {taken[0]!r} under this "
                "name; rename the parameter"
            )

    def __call__(self, prompt: Prompt, completion: Completion) -> float | Verdict:
        """Grade one response."""
        result: float | Verdict = self.function.call(self._available(prompt, completion))
        return result

    @property
    def answers_without_reference(self) -> bool | None:
        """What the function says of itself in an attribute of this name."""
        said: bool | None = self.function.attribute("answers_without_reference")
        return said

    def check(self) -> None:
        """Import the function.

        Raises:
            ValueError: it cannot be imported, or not be called by the names of its parameters.
        """
        self.function.check()
        if unknown := sorted(set(self.arguments) - self.function.accepted(self.arguments)):
            raise ValueError(
                f"reward.reward.arguments.{unknown[0]}: {self.function.path} has no parameter of this name"
            )

    def check_prompt(self, prompt: Prompt) -> None:
        """Compare what the function requires with this sample's columns.

        Raises:
            ValueError: something is missing.
        """
        available = self._available(prompt, Completion(""))
        missing = self.function.required() - set(available)
        ways = [
            f". Written for {library}? Use reward={reward} reward.reward.path={self.function.path}"
            for library, reward, names in _FOREIGN
            if names & missing
        ]
        self.function.check_names(available, "what this sample has", way_out="".join(ways))

    def _available(self, prompt: Prompt, completion: Completion) -> dict[str, Any]:
        columns = sample_columns(prompt)
        return {
            **columns,
            **self.arguments,
            "prompt": prompt,
            "completion": completion,
            "text": completion.text,
            "finish_reason": completion.finish_reason,
            "reference": prompt.reference,
            "columns": columns,
        }
