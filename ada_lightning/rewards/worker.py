"""What runs inside a reward process. Imports almost nothing: workers must start fast and stay small."""

from __future__ import annotations

import importlib
import math
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ada_lightning.core.records import Verdict
from ada_lightning.rewards.failures import MEMORY_EXIT_CODE, raised
from ada_lightning.rewards.isolation import Isolation, isolate

T = TypeVar("T")
_LEAST_ROOM_BYTES = 16_000_000
_MAX_REPR_CHARS = 200
_loaded: dict[str, Any] = {}  # this process's reward, or why there is none; written once, by load_reward


def load_reward(pickled_reward: bytes, isolation: Isolation, setting: str) -> None:
    """Isolate the process, unpickle the reward, let it check itself and import what it grades with.

    Runs once per process, before the time of its first response is counted, and never raises: see :func:`load_error`.
    ``setting`` is what chooses limits, for messages: ``reward`` or ``environment``.
    """
    try:
        isolate(isolation)
        reward = pickle.loads(pickled_reward)
        check = getattr(reward, "check", None)
        if check is not None:
            check()
        for module in getattr(reward, "modules", ()):  # of an environment known when it was checked
            importlib.import_module(module)
        if not _has_room():  # a process that is above its limit already would fail at every response
            raise MemoryError
        _loaded["reward"] = reward
    except BaseException as error:  # a user's module can raise anything on import; the parent reports it
        # A library that cannot be mapped is an ImportError, whatever the reason.
        text = error if _has_room() else f"no room for a response; raise {setting}.memory_limit_gb"
        _loaded["error"] = f"{type(error).__name__}: {text}\n{traceback.format_exc()}"


def _has_room() -> bool:
    try:
        bytearray(_LEAST_ROOM_BYTES)
    except MemoryError:
        return False
    return True


def load_error() -> str:
    """Say why this process has no reward; empty when it has one."""
    return str(_loaded.get("error", ""))


def check_prompts(pickled_prompts: bytes) -> Sequence[str]:
    """Ask the reward about each of some pickled prompts: why it cannot grade with it, empty where it can."""
    if "error" in _loaded:
        raise RuntimeError(_loaded["error"])
    pid = os.getpid()
    errors = [_prompt_error(prompt) for prompt in pickle.loads(pickled_prompts)]
    _leave_if_forked(pid)
    return errors


def _prompt_error(prompt: Any) -> str:
    try:
        _loaded["reward"].check_prompt(prompt)
    except ValueError as error:
        return str(error) or "ValueError"
    except BaseException as error:  # a parser that meets a reference it was not written for
        return f"{type(error).__name__}: {error}"
    return ""


def grade(pickled_response: bytes) -> tuple[Verdict, bool]:
    """Grade one pickled ``(prompt, completion)``; the grade, and whether another try may give another.

    Whatever the reward does short of killing the process becomes a grade, but for a lack of memory, which ends it: what
    earlier responses left behind must fail no other one.
    """
    return answered(_grade, pickled_response)


def answered(work: Callable[[bytes], T | None], payload: bytes) -> T:
    """Do what a process was asked for, and leave nothing behind for the next; the process ends where it gives None."""
    pid = os.getpid()
    found = work(payload)
    _leave_if_forked(pid)
    if found is None:
        os._exit(MEMORY_EXIT_CODE)
    signal.setitimer(signal.ITIMER_REAL, 0)  # an alarm that the reward forgot would strike between two responses
    return found


def loaded() -> Any:
    """This process's reward."""
    return _loaded["reward"]


def _leave_if_forked(worker_pid: int) -> None:
    """End a fork that the reward made and let return: it must not go on as a second worker."""
    if os.getpid() != worker_pid:
        os._exit(0)


def _grade(pickled_response: bytes) -> tuple[Verdict, bool] | None:
    """Return what became of the response; None where there was no memory for it."""
    if "error" in _loaded:
        return Verdict(None, failure="reward_not_loaded", detail=_loaded["error"]), False
    try:
        prompt, completion = pickle.loads(pickled_response)
        return to_grade(_loaded["reward"](prompt, completion)), False
    except MemoryError:
        return None
    except BaseException as error:  # untrusted model text can make a grader raise anything, SystemExit included
        return raised(error, traceback.format_exc(limit=-3))


def to_grade(value: Any) -> Verdict:
    """Accept a finite number or a verdict of finite numbers; anything else is 0, as a failure ``invalid_reward``.

    A number is a bool, int, float or an array library's scalar.

    Example:
        >>> to_grade(True).reward, to_grade(Verdict(0.5, "12")).answer, to_grade(float("nan")).detail
        (1.0, '12', 'nan is no finite number')
    """
    verdict = value if isinstance(value, Verdict) else Verdict(value)
    numbers = {"": verdict.reward, **{f"component {name!r} = ": part for name, part in verdict.components.items()}}
    for name, part in numbers.items():
        if _finite(part) is None:
            wrong = f"{name}{repr(part)[:_MAX_REPR_CHARS]} is no finite number"
            return Verdict(0.0, failure="invalid_reward", detail=wrong)
    if verdict.failure:
        wrong = f"failure={repr(verdict.failure)[:_MAX_REPR_CHARS]} in a verdict; a reward raises where it cannot grade"
        return Verdict(0.0, failure="invalid_reward", detail=wrong)
    if not isinstance(verdict.answer, str | None):
        wrong = f"the answer {repr(verdict.answer)[:_MAX_REPR_CHARS]} is no text"
        return Verdict(0.0, failure="invalid_reward", detail=wrong)
    components = {str(name): float(_finite(part) or 0.0) for name, part in verdict.components.items()}
    return Verdict(_finite(verdict.reward), verdict.answer, components)


def _finite(value: Any) -> float | None:
    item: Callable[[], Any] | None = getattr(value, "item", None)
    number = item() if item is not None else value
    return float(number) if isinstance(number, bool | int | float) and math.isfinite(number) else None
