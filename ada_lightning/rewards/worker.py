"""The code inside a reward process, and what keeps it from disturbing the run or outliving it.

Imports almost nothing: workers must start fast and stay small.
"""

from __future__ import annotations

import importlib
import os
import pickle
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ada_lightning.core.checks import finite_number
from ada_lightning.core.records import Verdict
from ada_lightning.rewards.failures import MEMORY_EXIT_CODE, raised
from ada_lightning.run.credentials import VARIABLES

_CHECK_INTERVAL_S = 0.2  # only where the system cannot wait for a process that is not a child


class Isolation(NamedTuple):
    """What a reward process may use."""

    trainer_pid: int
    """Process whose end ends the reward process too."""
    memory_limit_bytes: int | None
    """Heap and private writable mappings of the process (``RLIMIT_DATA``: shared libraries do not count)."""
    output_file: str | None
    """Where standard output and error go; None drops them."""


def isolate(isolation: Isolation) -> None:
    """Cut this process off from the terminal, limit its memory, and have its children die with it.

    The process becomes the leader of a session and process group, so that Ctrl-C does not reach it and everything it
    starts can be killed at once. A guardian does that when the process ends, in whatever way, or when the trainer does.
    A child that opens a session of its own escapes.

    Raises:
        OSError: ``output_file`` cannot be written.
    """
    if os.getpgrp() != os.getpid():
        os.setsid()
    for name in VARIABLES:
        os.environ.pop(name, None)
    _redirect_output(isolation.output_file or os.devnull)
    _start_guardian((os.getpid(), isolation.trainer_pid))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a reward that crashes may do so thousands of times
    if isolation.memory_limit_bytes is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = isolation.memory_limit_bytes if hard < 0 else min(isolation.memory_limit_bytes, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _redirect_output(path: str) -> None:
    target = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)


def _start_guardian(pids: tuple[int, int]) -> None:
    """Start a process that waits for the end of this one. It is no child, so a reward that waits never meets it."""
    starter = os.fork()
    if starter:
        os.waitpid(starter, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, os.sysconf("SC_OPEN_MAX"))  # the pool's pipes among them
            _wait_for_first(pids)
            os.killpg(pids[0], signal.SIGKILL)
    except OSError:  # nothing is left of the group
        pass
    finally:
        os._exit(0)


def _wait_for_first(pids: Sequence[int]) -> None:
    """Return as soon as one of these processes has ended."""
    poller = select.poll()
    try:
        for pid in pids:
            poller.register(os.pidfd_open(pid), select.POLLIN)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # Linux before 5.3, other systems
        while all(_is_alive(pid) for pid in pids):
            time.sleep(_CHECK_INTERVAL_S)
        return
    poller.poll()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


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

    Whatever the reward does short of killing the process becomes a grade, except a lack of memory, which ends it: what
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

    What a number is, :func:`ada_lightning.core.checks.finite_number` says.

    Example:
        >>> to_grade(True).reward, to_grade(Verdict(0.5, "12")).answer, to_grade(float("nan")).detail
        (1.0, '12', 'nan is no finite number')
        >>> from decimal import Decimal
        >>> to_grade(Decimal("0.5")).reward
        0.5
    """
    verdict = value if isinstance(value, Verdict) else Verdict(value)
    numbers = {"": verdict.reward, **{f"component {name!r} = ": part for name, part in verdict.components.items()}}
    for name, part in numbers.items():
        if finite_number(part) is None:
            wrong = f"{name}{repr(part)[:_MAX_REPR_CHARS]} is no finite number"
            return Verdict(0.0, failure="invalid_reward", detail=wrong)
    if verdict.failure:
        said = repr(verdict.failure)[:_MAX_REPR_CHARS]
        wrong = f"failure={said} in a verdict; a reward must raise an error if it cannot grade"
        return Verdict(0.0, failure="invalid_reward", detail=wrong)
    if not isinstance(verdict.answer, str | None):
        wrong = f"the answer {repr(verdict.answer)[:_MAX_REPR_CHARS]} is no text"
        return Verdict(0.0, failure="invalid_reward", detail=wrong)
    components = {str(name): float(finite_number(part) or 0.0) for name, part in verdict.components.items()}
    return Verdict(finite_number(verdict.reward), verdict.answer, components)
