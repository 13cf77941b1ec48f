"""Reward functions in TRL's format, called for single rounds of an adaptive rollout."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

RewardFunction = Callable[..., Sequence[float | None]]


class Grading:
    """Sums reward functions, each with ``prompts``, ``completions``, ``completion_ids`` and the data set's columns.

    Args:
        functions: one, or several whose rewards are added up.
        weights: of several; 1 each by default.

    Raises:
        TypeError: something that cannot be called here.
        ValueError: another number of weights.
    """

    def __init__(
        self, functions: RewardFunction | Sequence[RewardFunction], weights: Sequence[float] | None = None
    ) -> None:
        self.functions = list(functions) if isinstance(functions, Sequence) else [functions]
        self.weights = list(weights) if weights is not None else [1.0] * len(self.functions)
        for function in self.functions:
            if not callable(function) or inspect.iscoroutinefunction(function):
                raise TypeError(f"reward takes functions that are not async, not {function!r}: wrap it in one")
        if not self.functions or len(self.weights) != len(self.functions):
            raise ValueError(f"{len(self.functions)} reward functions and {len(self.weights)} weights")

    def __call__(
        self, rows: Sequence[dict[str, Any]], texts: Sequence[str], completion_ids: Sequence[list[int]]
    ) -> list[tuple[float | None, dict[str, float]]]:
        """Return (reward, its parts by function) of each response; None where a function says None.

        Args:
            rows: of the data set, one for each response.
            texts: of the responses.
            completion_ids: of the responses.

        Raises:
            ValueError: a function returned another number of rewards.
        """
        if not rows:
            return []
        prompts = [row["prompt"] for row in rows]
        completions = [
            text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]
            for prompt, text in zip(prompts, texts, strict=True)
        ]
        columns = {name: [row.get(name) for row in rows] for name in rows[0] if name != "prompt"}
        found = []
        for function in self.functions:
            rewards = function(prompts=prompts, completions=completions, completion_ids=list(completion_ids), **columns)
            if len(rewards) != len(rows):
                raise ValueError(f"{_name(function)} returned {len(rewards)} rewards for {len(rows)} responses")
            found.append([None if reward is None else float(reward) for reward in rewards])
        return [self._sum(values) for values in zip(*found, strict=True)]

    def _sum(self, values: Sequence[float | None]) -> tuple[float | None, dict[str, float]]:
        known = [value for value in values if value is not None]
        parts = {
            _name(function): value for function, value in zip(self.functions, values, strict=True) if value is not None
        }
        if len(known) < len(values):
            return None, parts
        return sum(weight * value for weight, value in zip(self.weights, known, strict=True)), parts


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
