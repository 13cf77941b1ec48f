"""What runs inside a reward process. Imports the standard library only: workers must start fast and stay small."""

from __future__ import annotations

import math
import pickle
import traceback
from collections.abc import Callable
from typing import Any

Verdict = tuple[float | None, str, str]
"""``(reward, failure, detail)``; the detail is for the log and empty where there is a reward."""

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


def grade(pickled_response: bytes) -> Verdict:
    """Grade one pickled ``(prompt, text)``.

    Whatever the reward does short of killing the process becomes a verdict.
    """
    if "error" in _loaded:
        return None, "reward_not_loaded", _loaded["error"]
    try:
        prompt, text = pickle.loads(pickled_response)
        return to_verdict(_loaded["reward"](prompt, text))
    except BaseException as error:  # untrusted model text can make a grader raise anything, SystemExit included
        return None, type(error).__name__, traceback.format_exc(limit=-3)


def to_verdict(value: Any, max_repr_chars: int = 200) -> Verdict:
    """Accept a finite number; anything else is a failure ``invalid_reward``.

    Args:
        value: what the reward returned: bool, int, float, or an array library's scalar.
        max_repr_chars: longest representation of a wrong value in the log.

    Example:
        >>> to_verdict(True), to_verdict(float("nan"))
        ((1.0, '', ''), (None, 'invalid_reward', 'nan is no finite number'))
    """
    item: Callable[[], Any] | None = getattr(value, "item", None)
    number = item() if item is not None else value
    if isinstance(number, (bool, int, float)) and math.isfinite(number):
        return float(number), "", ""
    return None, "invalid_reward", f"{repr(value)[:max_repr_chars]} is no finite number"
