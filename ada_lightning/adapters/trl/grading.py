"""Reward functions in TRL's format, called for single rounds of an adaptive rollout."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from reprlib import repr as shortened
from typing import Any

from torch.nn import Module

from ada_lightning.core.checks import finite_number
from ada_lightning.core.records import Verdict
from ada_lightning.rewards.user_function import mentions
from ada_lightning.run.doctor import about_percentages

RewardFunction = Callable[..., Sequence[float | None]]
GIVEN = ("prompts", "completions", "completion_ids")
FROM_THE_TRAINER = ("trainer_state", "log_extra", "log_metric")
"""What TRL hands every reward function in addition to :data:`GIVEN` and the columns."""
_NO_COLUMNS = ("prompt", "completion", "completion_ids")
"""Names in a row that TRL hands over otherwise, or not at all."""


class Grading:
    """Sums reward functions as TRL 1.16 does: what a function does not judge, None or NaN, adds nothing.

    Each gets ``prompts``, ``completions``, ``completion_ids``, the columns of the data set, and of ``trainer_state``,
    ``log_extra`` and ``log_metric`` those that its signature takes.

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
        given: Any = functions
        is_one = isinstance(given, str) or not isinstance(given, Sequence)
        self.functions: list[RewardFunction] = [given] if is_one else list(given)
        self.weights = list(weights) if weights is not None else [1.0] * len(self.functions)
        self.metrics: dict[str, list[float]] = {}
        """Values of ``log_metric`` that were not handed over yet."""
        for function in self.functions:
            if not callable(function) or isinstance(function, Module) or _is_async(function):
                raise TypeError(
                    f"reward takes functions that are neither models nor async, not {function!r}: wrap it in a function"
                )
        if not self.functions or len(self.weights) != len(self.functions):
            raise ValueError(f"{len(self.functions)} reward functions and {len(self.weights)} weights")
        names = [_name(function) for function in self.functions]
        self.names = [
            f"{name}#{number}" if (number := names[: at + 1].count(name)) > 1 else name for at, name in enumerate(names)
        ]
        """One for each function; a second one of the same name gets a number."""
        callers = [
            name for name, function in zip(self.names, self.functions, strict=True) if _calls_math_verify(function)
        ]
        if callers and (note := about_percentages()):
            warnings.warn(f"{', '.join(callers)}: {note}", UserWarning, stacklevel=3)

    def check_columns(self, columns: Iterable[str]) -> None:
        """Compare the parameters of the functions with what they get.

        Args:
            columns: of the data set.

        Raises:
            ValueError: a parameter without a default gets nothing, or something has no parameter.
        """
        always = {*columns}.difference(_NO_COLUMNS) | {*GIVEN}
        for function, name in zip(self.functions, self.names, strict=True):
            given = sorted(always.union(_taken(function)))
            try:
                _signature(function).bind(**dict.fromkeys(given))
            except TypeError as error:
                raise ValueError(
                    f"the reward function {name} cannot be called: {error}. It gets {', '.join(given)}. Add a column "
                    "to the data set, give the parameter a default, or let the function take **columns"
                ) from None

    def __call__(
        self,
        rows: Sequence[dict[str, Any]],
        texts: Sequence[str],
        completion_ids: Sequence[list[int]],
        trainer_state: Any = None,
    ) -> list[tuple[Verdict, dict[str, Any]]]:
        """Grade responses.

        The reward is the sum of weight times reward over the functions that gave one, and None, which is a failure,
        where none did. Components are rewards by the name of their function, without those that gave none.

        Args:
            rows: of the data set, one for each response.
            texts: of the responses.
            completion_ids: of the responses.
            trainer_state: of the trainer.

        Returns:
            For each response the verdict, and what functions logged of it by ``log_extra``, by column.

        Raises:
            ValueError: a function returned or logged another number of values than there are responses, or what is no
                reward.
        """
        if not rows:
            return []
        prompts = [row["prompt"] for row in rows]
        completions = [
            text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]
            for prompt, text in zip(prompts, texts, strict=True)
        ]
        columns = {name: [row[name] for row in rows] for name in rows[0] if name not in _NO_COLUMNS}
        extras: list[dict[str, Any]] = [{} for _ in rows]

        def log_extra(column: str, values: Iterable[Any]) -> None:
            for extra, value in zip(extras, _counted(values, len(rows), f"log_extra({column!r})"), strict=True):
                extra[column] = value

        offered = {"trainer_state": trainer_state, "log_extra": log_extra, "log_metric": self._log_metric}
        found = []
        for function, name in zip(self.functions, self.names, strict=True):
            taken = {key: offered[key] for key in _taken(function)}
            rewards = function(
                prompts=prompts, completions=completions, completion_ids=list(completion_ids), **(columns | taken)
            )
            found.append([_known(reward, name) for reward in _counted(rewards, len(rows), name)])
        return [(self._verdict(values), extra) for *values, extra in zip(*found, extras, strict=True)]

    def _verdict(self, values: Sequence[float | None]) -> Verdict:
        parts = {name: value for name, value in zip(self.names, values, strict=True) if value is not None}
        known = [weight * value for weight, value in zip(self.weights, values, strict=True) if value is not None]
        return Verdict(sum(known) if known else None, None, parts, "" if known else "reward is None")

    def _log_metric(self, name: str, value: float) -> None:
        self.metrics.setdefault(name, []).append(value)


def _counted(values: Any, number: int, name: str) -> list[Any]:
    try:
        listed = list(values)
    except TypeError:
        raise ValueError(
            f"{name} gave {shortened(values)} for {number} responses: it must give a list, one value each"
        ) from None
    if len(listed) != number:
        raise ValueError(f"{name} has {len(listed)} values for {number} responses")
    return listed


def _known(reward: Any, name: str) -> float | None:
    value = finite_number(reward)
    if value is None and not _is_nothing(reward):
        raise ValueError(
            f"{name} gave a response the reward {shortened(reward)}: it must be a finite number, None or NaN"
        )
    return value


def _is_nothing(reward: Any) -> bool:
    try:
        return reward is None or math.isnan(reward)
    except (TypeError, ValueError, RuntimeError, OverflowError):  # no number, or several
        return False


def _signature(function: Any) -> inspect.Signature:
    """Of one that Python does not know: any keyword."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return inspect.Signature([inspect.Parameter("columns", inspect.Parameter.VAR_KEYWORD)])


def _taken(function: Any) -> list[str]:
    """Which of :data:`FROM_THE_TRAINER` the function takes."""
    parameters = _signature(function).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return [name for name in FROM_THE_TRAINER if takes_any or name in parameters]


def _unwrapped(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function


def _is_async(function: Any) -> bool:
    inner = _unwrapped(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)


def _calls_math_verify(function: Any) -> bool:
    return mentions(_unwrapped(function), "math_verify")


def _name(function: Any) -> str:
    inner = _unwrapped(function)
    return str(getattr(inner, "__name__", type(inner).__name__))
