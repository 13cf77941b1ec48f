"""Grades with a reward function written for verl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ada_lightning.core.checks import finite_number
from ada_lightning.core.options import option
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.user_function import UserFunctionReward, sample_columns


@option("reward", "verl_function", below="reward", defaults=["_pool"], _convert_="all", path="???", arguments={})
class VerlFunctionReward(UserFunctionReward):
    """A reward function written for verl: ``compute_score(data_source, solution_str, ground_truth, extra_info)``.

    Plain or ``async``, called by name. Data in verl's columns, or any with an answer:

    - ``data_source``: column of this name; else the name of the prompt's task,
    - ``solution_str``: the response's text, untrusted,
    - ``ground_truth``: ``reward_model["ground_truth"]`` where there is a column ``reward_model``; else the answer,
    - ``extra_info``: column of this name; else an empty mapping. A copy, with ``truncated`` added: whether the length
      limit cut the response.

    The function returns a number, or a mapping whose ``score`` is the reward. Its other finite numbers are logged as
    components, a text ``pred`` counts as the answer found; the rest is dropped. ``arguments`` of the constructor, which
    is :class:`~ada_lightning.rewards.user_function.UserFunctionReward`'s, are verl's ``reward_kwargs``.
    """

    own_names = ("data_source", "solution_str", "ground_truth", "extra_info")

    def graded(self, returned: Any) -> float | Verdict:
        """Make a verdict of a mapping.

        Raises:
            KeyError: the mapping has no ``score``.
        """
        if not isinstance(returned, Mapping):
            return super().graded(returned)
        components = {
            str(name): number
            for name, value in returned.items()
            if name != "score" and (number := finite_number(value)) is not None
        }
        if "score" not in returned:
            there = ", ".join(sorted(map(str, returned))) or "nothing"
            raise KeyError(f"{self.function.path} returned a mapping without 'score'; it has: {there}")
        answer = returned.get("pred")
        return Verdict(returned["score"], answer if isinstance(answer, str) else None, components)

    def check(self) -> None:
        """Import the function and compare its parameters with what there is.

        Raises:
            ValueError: it cannot be imported, or requires something else.
        """
        super().check()
        of_batch = self.function.required() & {f"{name}s" for name in self.own_names}
        self.function.check_names(
            {*self.own_names, *self.arguments},
            "what verl's functions are given",
            way_out=". It is written for verl's batch reward manager, and here a function is given one response at a "
            "time: it cannot compare responses"
            if of_batch
            else "",
        )

    def check_prompt(self, prompt: Prompt) -> None:
        """Look for the sample's ground truth.

        Raises:
            ValueError: there is none, and the function requires it; or ``extra_info`` holds no names and values.
        """
        extra = sample_columns(prompt).get("extra_info")
        if extra is not None and not isinstance(extra, Mapping):
            raise ValueError(f"column extra_info must hold names and values; found {type(extra).__name__}")
        if "ground_truth" in self.function.required() and "ground_truth" not in self.available(prompt, Completion("")):
            raise ValueError(
                "no ground truth: the sample has neither a column reward_model with ground_truth nor an answer; "
                f"columns: {', '.join(sorted(sample_columns(prompt))) or 'none'}"
            )

    def available(self, prompt: Prompt, completion: Completion) -> dict[str, Any]:
        """Return what the function may ask for, by name."""
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
