"""What runs inside a reward process. Imports almost nothing: workers must start fast and stay small."""

from __future__ import annotations

import math
import pickle
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ada_lightning.types import Verdict


class Outcome(NamedTuple):
    """What became of one response, in a form that any process can unpickle."""

    reward: float | None
    failure: str = ""
    """As in :class:`~ada_lightning.types.Grade`."""
    detail: str = ""
    """For the log; empty where there is a reward."""
    answer: str | None = None
    components: Mapping[str, float] = {}  # of a NamedTuple, so shared by all: never written to


_loaded: dict[str, Any] = {}  # this process's reward, or why there is none; written once, by load_reward


def load_reward(pickled_reward: bytes) -> None:
    """Unpickle the reward and let it check itself. Runs once per process and never raises: see :func:`load_error`."""
    try:
        reward = pickle.loads(pickled_reward)
        check = getattr(reward, "check", None)
        if check is not None:
            check()
        _loaded["reward"] = reward
    except BaseException as error:  # a user's module can raise anything on import; the parent reports it
        _loaded["error"] = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"


def load_error() -> str:
    """Say why this process has no reward; empty when it has one."""
    return str(_loaded.get("error", ""))


def grade(pickled_response: bytes) -> Outcome:
    """Grade one pickled ``(prompt, completion)``.

    Whatever the reward does short of killing the process becomes an outcome.
    """
    if "error" in _loaded:
        return Outcome(None, "reward_not_loaded", _loaded["error"])
    try:
        prompt, completion = pickle.loads(pickled_response)
        return to_outcome(_loaded["reward"](prompt, completion))
    except BaseException as error:  # untrusted model text can make a grader raise anything, SystemExit included
        return Outcome(None, type(error).__name__, traceback.format_exc(limit=-3))


def to_outcome(value: Any, max_repr_chars: int = 200) -> Outcome:
    """Accept a finite number or a verdict of finite numbers; anything else is a failure ``invalid_reward``.

    Args:
        value: what the reward returned: bool, int, float, an array library's scalar, or a ``Verdict``.
        max_repr_chars: longest representation of a wrong value in the log.

    Example:
        >>> to_outcome(True).reward, to_outcome(Verdict(0.5, "12")).answer, to_outcome(float("nan")).detail
        (1.0, '12', 'nan is no finite number')
    """
    verdict = value if isinstance(value, Verdict) else Verdict(value)
    numbers = {"": verdict.reward, **verdict.components}
    for name, number in numbers.items():
        finite = _finite(number)
        if finite is None:
            what = f"component {name!r}: " if name else ""
            return Outcome(None, "invalid_reward", f"{what}{repr(number)[:max_repr_chars]} is no finite number")
        numbers[name] = finite
    if not isinstance(verdict.answer, str | None):
        return Outcome(None, "invalid_reward", f"the answer {repr(verdict.answer)[:max_repr_chars]} is no text")
    return Outcome(numbers.pop(""), answer=verdict.answer, components=numbers)


def _finite(value: Any) -> float | None:
    item: Callable[[], Any] | None = getattr(value, "item", None)
    number = item() if item is not None else value
    return float(number) if isinstance(number, bool | int | float) and math.isfinite(number) else None
