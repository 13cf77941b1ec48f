"""What runs inside a worker of environments. Imports almost nothing: workers must start fast and stay small."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pickle
import random
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ada_lightning.core.protocols.environment import End, Environment, Say
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards import worker
from ada_lightning.rewards.failures import raised


@dataclass(frozen=True, slots=True)
class Call:
    """A turn of the model, for an environment in the state that it was left in."""

    seed: int
    said: Completion
    index: int
    """Turns before it."""
    state: bytes = b""
    """The environment after the turn before, pickled; empty before the first."""
    limit: str = ""
    """Why the episode ends here even if the environment has more to say; empty where it need not."""
    is_cut: bool = False
    """Whether the turn was answered already, and there is no room for the answer."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What an environment made of a turn. Plain values only: what unpickles it is the trainer."""

    text: str = ""
    state: bytes = b""
    """The environment, pickled; opaque to whoever receives it, and empty after the end."""
    is_end: bool = False
    limit: str = ""
    """The limit that ended it; empty where the environment did."""
    grade: Verdict | None = None
    """Of the end; None where the configured reward is to grade."""
    reward: float | None = None
    """Of the turn alone, where turns have any."""
    num_calls: int = 0
    num_call_errors: int = 0
    seconds: float = field(default=0.0, compare=False)

    @property
    def failure(self) -> str:
        """Why the environment failed; empty where it did not."""
        return self.grade.failure if self.grade is not None else ""

    @property
    def detail(self) -> str:
        """What a person wants to read of a failure."""
        return self.grade.detail if self.grade is not None else ""


def failed(grade: Verdict) -> Reply:
    """Return the reply of an environment that could not answer, with what the episode is then worth."""
    named = Verdict(grade.reward, failure=f"environment_{grade.failure}", detail=grade.detail)
    return Reply(is_end=True, grade=named)


MAX_STATE_BYTES = 10_000_000
"""Largest environment between two turns: it travels to the trainer and back."""
_MAX_COUNT = 10**6
_METHODS: dict[str, tuple[str, ...]] = {"start": ("prompt", "seed"), "turn": ("said",), "cut": ()}
"""What episodes call of an environment, and with which arguments."""


class EnvironmentClass:
    """Names a class of environments and makes one of them for every episode; travels as a path.

    Args:
        path: ``package.module.Class`` of a :class:`~ada_lightning.core.protocols.environment.Environment`.
        arguments: of its constructor.
        max_reply_chars: longest answer of it; the rest is cut.

    Raises:
        ValueError: ``path`` has no module or is not made of names.
    """

    cacheable = False

    def __init__(self, path: str, arguments: Mapping[str, Any], *, max_reply_chars: int) -> None:
        names = path.split(".")
        if len(names) < 2 or not all(name.isidentifier() for name in names):
            raise ValueError(f"environment.path must name a class as 'package.module.Class'; got {path!r}")
        self.path, self.arguments, self.max_reply_chars = path, dict(arguments), max_reply_chars
        self.modules = (path.rpartition(".")[0],)

    def check(self) -> None:
        """Import the class, make one and let it check itself.

        Raises:
            ValueError: the module cannot be imported, holds no such class, the arguments do not go with it, or it lacks
                a method that episodes call.
        """
        module_name, _, name = self.path.rpartition(".")
        try:
            kind = getattr(importlib.import_module(module_name), name, None)
        except Exception as error:  # the user's module may fail in any way; the cause is chained
            raise ValueError(
                f"cannot import {module_name!r} of environment.path = {self.path!r}: {type(error).__name__}: {error}. "
                "Put the module next to train.py (ada train: in the current folder), or install its package."
            ) from error
        base = f"{Environment.__module__}.{Environment.__name__}"
        if not isinstance(kind, type):
            raise ValueError(f"environment.path = {self.path!r} names no class; derive one from {base}")
        self.modules = (module_name, *getattr(kind, "modules", ()))
        try:
            made = kind(**self.arguments)
        except TypeError as error:
            raise ValueError(f"environment.arguments do not go with {self.path}: {error}") from error
        if missing := [
            f"{name}({', '.join(arguments)})"
            for name, arguments in _METHODS.items()
            if getattr(kind, name, None) is Environment.turn or not _takes(getattr(made, name, None), arguments)
        ]:
            raise ValueError(
                f"environment.path = {self.path!r} names a class without {', '.join(missing)}; define what is missing. "
                f"A class derived from {base} needs turn(said) alone"
            )
        if callable(check := getattr(made, "check", None)):
            check()

    def make(self) -> Environment:
        """Return a new environment."""
        module_name, _, name = self.path.rpartition(".")
        made: Environment = getattr(importlib.import_module(module_name), name)(**self.arguments)
        return made


def _takes(method: Any, arguments: tuple[str, ...]) -> bool:
    """Whether something can be called with so many arguments."""
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # it has no signature that Python could read
        return True
    return True


def act(pickled_call: bytes) -> tuple[Reply, bool]:
    """Answer one pickled ``(prompt, call)``; the reply, and whether another try may give another.

    Whatever an environment does short of killing the process becomes a reply, as in
    :func:`ada_lightning.rewards.worker.grade`.
    """
    return worker.answered(_act, pickled_call)


def _act(pickled_call: bytes) -> tuple[Reply, bool] | None:
    if reason := worker.load_error():
        return failed(Verdict(None, failure="not_loaded", detail=reason)), False
    started, is_starting = time.perf_counter(), True
    try:
        prompt, call = pickle.loads(pickled_call)
        environment = _started(prompt, call)
        is_starting = False
        _seed(call, "cut" if call.is_cut else "turn")
        said = _result(environment.cut() if call.is_cut else environment.turn(call.said))
        limit, reward = "context" if call.is_cut else "", said.reward if isinstance(said, Say) else None
        counts: dict[str, Any] = {}
        if call.limit and not isinstance(said, End):
            counts, said, limit = _counts(said), _result(environment.cut()), call.limit
        reply = _rewarded(replace(_reply(said, environment, limit), **counts), reward)
    except MemoryError:
        return None
    except BaseException as error:  # untrusted model text can make an environment raise anything, SystemExit included
        grade, may_succeed = raised(error, traceback.format_exc(limit=-3))
        if is_starting:  # the model had no part in it
            grade = replace(grade, reward=None)
        return replace(failed(grade), seconds=time.perf_counter() - started), may_succeed
    return replace(reply, seconds=time.perf_counter() - started), False


def _started(prompt: Prompt, call: Call) -> Environment:
    """Return the episode's environment as the last turn left it, or a new one that was started."""
    if call.state:
        environment: Environment = pickle.loads(call.state)
        return environment
    _seed(call, "start")
    environment = worker.loaded().make()
    _result(environment.start(prompt, call.seed))
    return environment


def _seed(call: Call, method: str) -> None:
    """Seed what a careless environment draws from, whatever ran in this process before."""
    random.seed(f"{call.seed}/{call.index}/{method}")
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(random.getrandbits(32))


_runners: list[asyncio.Runner] = []  # this process's event loop, once one is needed


def _result(value: Any) -> Any:
    """Wait for what is awaited: on an event loop that lives as long as the process."""
    if not inspect.isawaitable(value):
        return value
    if not _runners:
        _runners.append(asyncio.Runner())

    async def waited() -> Any:
        return await value

    return _runners[0].run(waited())


def _reply(said: Any, environment: Environment, limit: str) -> Reply:
    """Accept a text, :class:`Say` or :class:`End`, at a limit :class:`End` alone; else ``invalid_reply``, worth 0."""
    if isinstance(said, End):
        if said.reward is None:
            return Reply(is_end=True, limit=limit, **_counts(said))
        grade = worker.to_grade(Verdict(said.reward, said.answer, said.components))
        reply = failed(grade) if grade.failure else Reply(is_end=True, grade=grade)
        return replace(reply, limit=limit, **_counts(said))
    text = said.text if isinstance(said, Say) else said
    if limit or not isinstance(text, str):  # with more than an end at a limit an episode would never end
        method, may = ("cut", "must return End") if limit else ("turn", "may return str, Say or End")
        wrong = f"{type(environment).__name__}.{method} returned {type(said).__name__}; it {may}"
        return failed(Verdict(0.0, failure="invalid_reply", detail=wrong))
    # str's own methods: a subclass may mean anything by them. Lone surrogates are no text that a tokenizer takes.
    plain = str.encode(str.__getitem__(text, slice(worker.loaded().max_reply_chars)), "utf-8", "replace").decode()
    try:
        state = pickle.dumps(environment, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        wrong = f"{type(environment).__name__} cannot be pickled between turns: {error}"
        return failed(Verdict(0.0, failure="invalid_state", detail=wrong))
    if len(state) > MAX_STATE_BYTES:
        wrong = (
            f"{type(environment).__name__} has {len(state)} bytes of state between turns; the most is {MAX_STATE_BYTES}"
        )
        return failed(Verdict(0.0, failure="invalid_state", detail=wrong))
    return Reply(plain, state, **_counts(said))


def _rewarded(reply: Reply, reward: Any) -> Reply:
    """Give a reply what its turn is worth; it fails as ``invalid_reward`` where that is no finite number."""
    if reward is None:
        return reply
    grade = worker.to_grade(reward)
    return failed(grade) if grade.failure else replace(reply, reward=grade.reward)


def _counts(said: Any) -> dict[str, Any]:
    """Figures of an answer, as plain numbers of a sane size."""
    if not isinstance(said, Say | End):
        return {}
    found = {"num_calls": said.num_calls, "num_call_errors": said.num_call_errors}
    return {name: min(max(int(number), 0), _MAX_COUNT) for name, number in found.items()}
