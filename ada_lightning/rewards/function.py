"""Grades with the user's own function."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from ada_lightning.types import Completion, Prompt, Verdict


class FunctionReward:
    """Calls a function that takes ``(prompt: Prompt, text: str)`` and returns a finite number.

    It runs in reward workers, so its module is imported there: it must be importable from the folder of ``train.py`` or
    from an installed package. Raise where a response cannot be graded; return 0 where it is wrong. A module that
    imports torch costs every worker its memory and seconds of start.

    Args:
        path: ``package.module.function``.

    Raises:
        ValueError: ``path`` has no module or is not made of names.

    Example:
        >>> from ada_lightning.types import Completion, Prompt
        >>> FunctionReward("operator.eq")(Prompt("id", ()), Completion("text"))
        False
    """

    def __init__(self, path: str) -> None:
        names = path.split(".")
        if len(names) < 2 or not all(name.isidentifier() for name in names):
            raise ValueError(f"reward.path must name a function as 'package.module.function'; got {path!r}")
        self.path = path
        self._function: Callable[[Prompt, str], float | Verdict] | None = None

    def __getstate__(self) -> dict[str, str | None]:
        """Travel as a path: the function is imported where it runs."""
        return {"path": self.path, "_function": None}

    def __call__(self, prompt: Prompt, completion: Completion) -> float | Verdict:
        """Grade one response."""
        if self._function is None:
            self._function = self._import()
        return self._function(prompt, completion.text)

    def check(self) -> None:
        """Import the function.

        Raises:
            ValueError: the module cannot be imported, or holds no such function.
        """
        self._function = self._import()

    def _import(self) -> Callable[[Prompt, str], float | Verdict]:
        module_name, _, function_name = self.path.rpartition(".")
        try:
            module = importlib.import_module(module_name)
        except Exception as error:  # the user's module may fail in any way; the cause is chained
            raise ValueError(
                f"cannot import {module_name!r} of reward.path = {self.path!r}: {type(error).__name__}: {error}. "
                "Put the module beside train.py or install its package."
            ) from error
        function = getattr(module, function_name, None)
        if not callable(function):
            found = ", ".join(sorted(name for name, value in vars(module).items() if callable(value))[:10]) or "none"
            raise ValueError(f"module {module_name!r} has no function {function_name!r}; callables there: {found}")
        return function
