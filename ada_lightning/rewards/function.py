"""Grades with the user's own function."""

from __future__ import annotations

from typing import Any

from ada_lightning.core.options import option
from ada_lightning.core.records import Completion, Prompt
from ada_lightning.rewards.user_function import UserFunctionReward, sample_columns

_FOREIGN = (
    ("TRL", "trl_function", {"prompts", "completions"}),
    ("verl", "verl_function", {"data_source", "solution_str", "ground_truth", "extra_info"}),
)
"""Libraries whose functions have a reward of their own, and the parameters that they are known by."""


@option("reward", "function", below="reward", defaults=["_pool"], _convert_="all", path="???", arguments={})
class FunctionReward(UserFunctionReward):
    """A function of your own, plain or async, importable from the folder of train.py: ``grade(text, answer) -> float``.

    It returns a finite number or a ``Verdict``, and is given, by the names of its parameters, whatever it declares of

    - ``prompt``: the :class:`~ada_lightning.core.records.Prompt`,
    - ``completion``: the :class:`~ada_lightning.core.records.Completion`,
    - ``text``: the response's text, untrusted,
    - ``finish_reason``: ``"stop"``, or ``"length"`` where the length limit cut it,
    - ``reference``: all that the source keeps for grading, a mapping,
    - ``columns``: the sample's columns, a mapping,
    - each key of ``arguments``,
    - each of the sample's columns under its own name, and ``answer``.

    Of equal names the one further up counts. With ``**kwargs`` it gets all of them. An ``async`` function that asks a
    server has one request under way in each worker: ``num_workers`` of them at once. The constructor is
    :class:`~ada_lightning.rewards.user_function.UserFunctionReward`'s.

    Example:
        >>> reward = FunctionReward("textwrap.dedent")  # declares text; a real one returns a number
        >>> reward(Prompt("id", ()), Completion("  12"))
        '12'
    """

    own_names = ("prompt", "completion", "text", "finish_reason", "reference", "columns")

    def check_prompt(self, prompt: Prompt) -> None:
        """Compare what the function requires with this sample's columns.

        Raises:
            ValueError: something is missing.
        """
        available = self.available(prompt, Completion(""))
        missing = self.function.required() - set(available)
        ways = [
            f". Written for {library}? Use reward={reward} reward.reward.path={self.function.path}"
            for library, reward, names in _FOREIGN
            if names & missing
        ]
        self.function.check_names(available, "what this sample has", way_out="".join(ways))

    def available(self, prompt: Prompt, completion: Completion) -> dict[str, Any]:
        """Return what the function may ask for, by name."""
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
