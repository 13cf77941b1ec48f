"""Grades with a reward function written for verl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.columns import sample_columns
from ada_lightning.rewards.user_function import UserFunction

OWN_NAMES = ("data_source", "solution_str", "ground_truth", "extra_info")


class VerlFunctionReward:
    """Calls ``compute_score(data_source, solution_str, ground_truth, extra_info)``, plain or ``async``, by name.

    - ``data_source``: column of this name; else the name of the prompt's task,
    - ``solution_str``: the response's text, untrusted,
    - ``ground_truth``: ``reward_model["ground_truth"]`` where there is a column ``reward_model``; else the answer,
    - ``extra_info``: column of this name; else an empty mapping. A copy, with ``truncated`` added: whether the length
      limit cut the response.

    The function returns a number, or a mapping whose ``score`` is the reward. The mapping's other numbers are logged as
    components, a text ``pred`` counts as the answer found; the rest is dropped.

    Args:
        path: ``package.module.function``.
        arguments: constants for further parameters (verl's ``reward_kwargs``).
        cacheable: as for :class:`~ada_lightning.rewards.function.FunctionReward`.

    Raises:
        ValueError: ``path`` names no function, or ``arguments`` has a name that means something else.
    """

    def __init__(self, path: str, *, arguments: Mapping[str, Any] | None = None, cacheable: bool = False) -> None:
        self.function = UserFunction(path)
        self.arguments = dict(arguments or {})
        self.cacheable = cacheable
        if taken := sorted(set(OWN_NAMES) & set(self.arguments)):
            raise ValueError(f"reward.reward.arguments.{taken[0]}: the function gets the sample's own {taken[0]!r}")

    def __call__(self, prompt: Prompt, completion: Completion) -> Any:
        """Grade one response.

        Raises:
            KeyError: the function returned a mapping without ``score``.
        """
        result = self.function.call(self._available(prompt, completion))
        if not isinstance(result, Mapping):
            return result
        components = {
            str(name): float(value)
            for name, value in result.items()
            if name != "score" and isinstance(value, bool | int | float)
        }
        answer = result.get("pred")
        return Verdict(result["score"], answer if isinstance(answer, str) else None, components)

    @property
    def answers_without_reference(self) -> bool | None:
        """What the function says of itself in an attribute of this name."""
        said: bool | None = self.function.attribute("answers_without_reference")
        return said

    def check(self) -> None:
        """Import the function and compare its parameters with what there is.

        Raises:
            ValueError: it cannot be imported, or requires something else.
        """
        self.function.check()
        if unknown := sorted(set(self.arguments) - self.function.accepted(self.arguments)):
            raise ValueError(
                f"reward.reward.arguments.{unknown[0]}: {self.function.path} has no parameter of this name"
            )
        self.function.check_names({*OWN_NAMES, *self.arguments}, "what verl's functions are given")

    def check_prompt(self, prompt: Prompt) -> None:
        """Look for the sample's ground truth.

        Raises:
            ValueError: there is none, and the function requires it; or ``extra_info`` holds no names and values.
        """
        extra = sample_columns(prompt).get("extra_info")
        if extra is not None and not isinstance(extra, Mapping):
            raise ValueError(f"column extra_info must hold names and values; found {type(extra).__name__}")
        if "ground_truth" in self.function.required() and "ground_truth" not in self._available(prompt, Completion("")):
            raise ValueError(
                "no ground truth: the sample has neither a column reward_model with ground_truth nor an answer; "
                f"columns: {', '.join(sorted(sample_columns(prompt))) or 'none'}"
            )

    def _available(self, prompt: Prompt, completion: Completion) -> dict[str, Any]:
        columns = sample_columns(prompt)
        model = columns.get("reward_model")
        available = {
            **self.arguments,
            "data_source": columns.get("data_source", prompt.task),
            "solution_str": completion.text,
            "extra_info": {**(columns.get("extra_info") or {}), "truncated": completion.finish_reason == "length"},
        }
        if isinstance(model, Mapping) and "ground_truth" in model:
            available["ground_truth"] = model["ground_truth"]
        elif "answer" in columns:
            available["ground_truth"] = columns["answer"]
        return available
