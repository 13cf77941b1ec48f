"""A reward from the user's own function, which is named by its path and called with named parameters."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, ClassVar

from ada_lightning.core.records import Completion, Prompt, Verdict

_PROMPT_MARKS = ("Assistant:", "<|im_start|>assistant")
"""Where a response begins in the text of prompt and response."""
_KEYWORD_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class UserFunction:
    """Imports a function where it runs, and gives it what it asks for by name. It may be ``async``.

    Its module must be importable from the folder of ``train.py`` or from an installed package. One that imports torch
    costs every worker its memory and seconds of start.

    Args:
        path: ``package.module.function``.

    Raises:
        ValueError: ``path`` has no module or is not made of names.
    """

    def __init__(self, path: str) -> None:
        names = path.split(".")
        if len(names) < 2 or not all(name.isidentifier() for name in names):
            raise ValueError(f"reward.reward.path must name a function as 'package.module.function'; got {path!r}")
        self.path = path
        self._function: Callable[..., Any] | None = None
        self._parameters: Mapping[str, inspect.Parameter] = {}
        self._runner: asyncio.Runner | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Travel as a path: the function is imported where it runs."""
        return {"path": self.path, "_function": None, "_parameters": {}, "_runner": None}

    def check(self) -> None:
        """Import the function and look at its parameters.

        Raises:
            ValueError: the module cannot be imported, holds no such function, or the function cannot be called by the
                names of its parameters.
        """
        self._function = self._import()
        if inspect.isclass(self._function):
            raise ValueError(
                f"{self.path} is a class, and what it makes is no reward; name an instance of it or a function, or "
                f"have it made: reward.reward._target_={self.path}"
            )
        if inspect.isgeneratorfunction(self._function) or inspect.isasyncgenfunction(self._function):
            raise ValueError(f"{self.path} yields, and a reward is returned; write return in place of yield")
        try:
            self._parameters = inspect.signature(self._function).parameters
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{self.path} does not reveal the names of its parameters; wrap it in a function"
            ) from error
        unnamed = [p.name for p in self._parameters.values() if p.kind not in _KEYWORD_KINDS and not _takes_any(p)]
        if unnamed:
            raise ValueError(
                f"{self.path} is called with named parameters, but {', '.join(unnamed)} can only be given by "
                "position; leave out '/' and '*args', or wrap it in a function"
            )

    def required(self) -> frozenset[str]:
        """Names of the parameters that have no default."""
        return frozenset(
            p.name for p in self._checked().values() if p.default is inspect.Parameter.empty and not _takes_any(p)
        )

    def accepted(self, names: Collection[str]) -> frozenset[str]:
        """Those of some names that the function can be given."""
        parameters = self._checked()
        takes_any = any(_takes_any(parameter) for parameter in parameters.values())
        return frozenset(name for name in names if takes_any or name in parameters)

    def attribute(self, name: str) -> Any:
        """What the function itself says under a name, as ``function.name = ...``; None where it says nothing."""
        self._checked()
        return getattr(self._function, name, None)

    def source(self) -> str:
        """Text of the function's module; empty where there is none to read."""
        self._checked()
        return _source(self._function)

    def mentions(self, package: str) -> bool:
        """Whether the source of its module names a package; False where there is no source."""
        self._checked()
        return mentions(self._function, package)

    def check_names(self, available: Collection[str], where: str, *, way_out: str = "") -> None:
        """Raise ValueError where a parameter without a default is not among the names that there are.

        Args:
            available: those names.
            where: what they are, for the message.
            way_out: another one than those that the message has.
        """
        missing = sorted(self.required() - set(available))
        if missing:
            raise ValueError(
                f"{self.path} needs {', '.join(map(repr, missing))}; {where}: {', '.join(sorted(available))}. Rename "
                "the parameter, give it a default, set it in reward.reward.arguments, or add the column to the data"
                f"{way_out}"
            )

    def call(self, available: Mapping[str, Any]) -> Any:
        """Call with those of the available values that the function declares, all of them where it has ``**kwargs``.

        An ``async`` function runs on an event loop of this process that lives as long as the process, so that clients
        and connections of a server can be kept between calls.
        """
        parameters = self._checked()
        if not any(_takes_any(parameter) for parameter in parameters.values()):
            available = {name: value for name, value in available.items() if name in parameters}
        assert self._function is not None
        result = self._function(**available)
        if not inspect.isawaitable(result):
            return result
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(_wait_for(result))

    def _checked(self) -> Mapping[str, inspect.Parameter]:
        if self._function is None:
            self.check()
        return self._parameters

    def _import(self) -> Callable[..., Any]:
        module_name, _, function_name = self.path.rpartition(".")
        try:
            module = importlib.import_module(module_name)
        except Exception as error:  # the user's module may fail in any way; the cause is chained
            raise ValueError(
                f"cannot import {module_name!r} of reward.reward.path = {self.path!r}: {type(error).__name__}: "
                f"{error}. Put the module next to train.py (ada train: in the current folder), or install its package."
            ) from error
        function = getattr(module, function_name, None)
        if not callable(function):
            found = ", ".join(sorted(name for name, value in vars(module).items() if callable(value))[:10]) or "none"
            raise ValueError(f"module {module_name!r} has no function {function_name!r}; callables there: {found}")
        return function


class UserFunctionReward:
    """Grades with a function: what it is given under which name, and what is made of its answer, are a subclass's.

    It runs in reward workers. Raise where a response cannot be graded; return 0 where it is wrong.

    Args:
        path: ``package.module.function``.
        arguments: constants for parameters of these names, such as the address of a server.
        cacheable: whether equal responses to a prompt get equal rewards, so that a grade can be remembered. False asks
            the function every time.

    Raises:
        ValueError: ``path`` names no function, or ``arguments`` has a name that means something else.
    """

    own_names: ClassVar[tuple[str, ...]] = ()
    """Names that ``arguments`` cannot have."""

    def __init__(self, path: str, *, arguments: Mapping[str, Any] | None = None, cacheable: bool = False) -> None:
        self.function = UserFunction(path)
        self.arguments = dict(arguments or {})
        self.cacheable = cacheable
        if taken := sorted(set(self.own_names) & set(self.arguments)):
            raise ValueError(
                f"reward.reward.arguments.{taken[0]}: the function gets the sample's own {taken[0]!r} under this name; "
                "rename the parameter"
            )

    @property
    def answers_without_reference(self) -> bool | None:
        """What the function says of itself in an attribute of this name."""
        said: bool | None = self.function.attribute("answers_without_reference")
        return said

    @property
    def hint(self) -> str:
        """What may be wrong where all its rewards are equal; empty where nothing is known."""
        mark = next((mark for mark in _PROMPT_MARKS if mark in self.function.source()), "")
        if not mark:
            return ""
        return (
            f"the module of {self.function.path} looks for {mark!r}, as functions of verl's first year do, which get "
            "prompt and response in one text: here it is the response alone, so take that out"
        )

    def __call__(self, prompt: Prompt, completion: Completion) -> float | Verdict:
        """Grade one response."""
        return self.graded(self.function.call(self.available(prompt, completion)))

    def available(self, prompt: Prompt, completion: Completion) -> dict[str, Any]:
        """Return what the function may ask for, by name."""
        raise NotImplementedError

    def graded(self, returned: Any) -> float | Verdict:
        """Make a reward of what the function returned."""
        reward: float | Verdict = returned
        return reward

    def check(self) -> None:
        """Import the function, and compare ``arguments`` with its parameters.

        Raises:
            ValueError: it cannot be imported or called by names, or has no parameter of an argument's name.
        """
        self.function.check()
        if unknown := sorted(set(self.arguments) - self.function.accepted(self.arguments)):
            raise ValueError(
                f"reward.reward.arguments.{unknown[0]}: {self.function.path} has no parameter of this name"
            )

    def check_prompt(self, prompt: Prompt) -> None:
        """Compare what the function requires with this sample's columns.

        Raises:
            ValueError: something is missing.
        """
        self.function.check_names(self.available(prompt, Completion("")), "what this sample has")


def sample_columns(prompt: Prompt) -> dict[str, Any]:
    """Return the sample's columns by name, ``answer`` among them: the answer column under whatever name it has.

    Sources put the columns into ``reference["columns"]`` and the reference answer into ``reference["answer"]``.

    Example:
        >>> sample_columns(Prompt("id", (), {"answer": 12, "columns": {"solution": 12, "level": 3}}))
        {'solution': 12, 'level': 3, 'answer': 12}
    """
    answer = {"answer": prompt.reference["answer"]} if "answer" in prompt.reference else {}
    return {**prompt.reference.get("columns", {}), **answer}


def mentions(function: Any, package: str) -> bool:
    """Whether the source of a function's module names a package; False where there is no source."""
    return re.search(rf"\b{re.escape(package)}\b", _source(function)) is not None


def _source(function: Any) -> str:
    try:
        return inspect.getsource(inspect.getmodule(function) or function)
    except (OSError, TypeError):
        return ""


def _takes_any(parameter: inspect.Parameter) -> bool:
    return parameter.kind is inspect.Parameter.VAR_KEYWORD


async def _wait_for(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
