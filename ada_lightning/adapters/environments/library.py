"""Shared parts of the adapters for other libraries' environments."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from ada_lightning.adapters.tested import check_version
from ada_lightning.core.protocols.environment import End, Environment, Say
from ada_lightning.core.records import Completion, Prompt

NUM_PROBED = 4
"""Tasks that are played twice at start."""


class LibraryEnvironment(Environment):
    """An environment of a package, which is an extra of this project; its rewards of single turns are summed.

    Args:
        name: of the environment in its library.
        arguments: of its constructor.
    """

    package: ClassVar[str]
    """As it is distributed."""
    tested: ClassVar[tuple[tuple[int, int], tuple[int, int]]]
    """Its oldest version that was tested, and the first that was not."""
    install: ClassVar[str] = ""
    """Command that installs it, where it is no extra of this project."""
    modules: ClassVar[tuple[str, ...]] = ()
    """What workers have imported before they start, so that no answer waits for it."""

    def __init__(self, name: str, arguments: Mapping[str, Any] | None = None) -> None:
        self.name, self.arguments = name, dict(arguments or {})
        self.inner: Any = None

    def check(self) -> None:
        """Compare the package's version with those that were tested.

        Raises:
            ValueError: it is not installed, or another version.
        """
        try:
            check_version(self.package, *self.tested, install=self.install)
        except ImportError as error:
            raise ValueError(str(error)) from error

    def answer(self, text: str) -> tuple[str, float, bool]:
        """Take a turn of the model; what is said to it, what the turn is worth, and whether that was the last one."""
        raise NotImplementedError

    def turn(self, said: Completion) -> Say | End:
        """Hand a turn on."""
        text, reward, is_over = self.answer(said.text)
        return End(reward=reward) if is_over else Say(text, reward=reward)


class SeededEnvironment(LibraryEnvironment):
    """One whose tasks are numbered: a number gives always the same one. ``data=environment`` makes prompts of them.

    Args:
        name: of the environment in its library.
        arguments: of its constructor.
        probe: turns by which it is tested at start whether a number always gives the same task.
    """

    probe: Sequence[str] = ("10",)

    def __init__(
        self, name: str, arguments: Mapping[str, Any] | None = None, probe: Sequence[str] | None = None
    ) -> None:
        super().__init__(name, arguments)
        self.probe = self.probe if probe is None else tuple(probe)

    def begin(self, seed: int) -> str:
        """Begin a task; what the model is told first."""
        raise NotImplementedError

    def check(self) -> None:
        """Play some tasks twice, besides what others check.

        Raises:
            ValueError: the package is not one that was tested, the environment cannot be played, or the same turns of
                the same task were answered differently: responses to a prompt could not be compared with each other.
        """
        super().check()
        for seed in range(NUM_PROBED):
            try:
                first, again = self._played(seed), self._played(seed)
            except Exception as error:  # the library's own, or a server's; the cause is chained
                raise ValueError(f"cannot play {self.name} of {self.package}: {error}") from error
            if first != again:
                raise ValueError(
                    f"{self.name} of {self.package} is a different task each time it begins: with seed {seed} it said "
                    f"{first[-1]!r}, then {again[-1]!r}; an environment that ignores its seed cannot be trained with"
                )

    def first(self, seed: int) -> str:
        """Return what a task says first, leaving the process's generators as they were."""
        with _generators_kept():
            return self._begun(seed)

    def start(self, prompt: Prompt, seed: int) -> None:
        """Begin the prompt's task.

        Raises:
            ValueError: the prompt has none, or the task does not say what the prompt does.
        """
        if "seed" not in prompt.reference:
            raise ValueError("the prompt names no seed of a task; take prompts from the environment: data=environment")
        said, expected = self._begun(int(prompt.reference["seed"])), prompt.messages[-1]["content"]
        if said != expected:
            raise ValueError(f"the task says {said[:100]!r} first, where its prompt has {expected[:100]!r}")

    def _begun(self, seed: int) -> str:
        random.seed(seed)  # some libraries draw from the global generators whatever seed they are given
        np.random.seed(seed % 2**32)
        return self.begin(seed)

    def _played(self, seed: int) -> list[Any]:
        with _generators_kept():
            found: list[Any] = [self._begun(seed)]
            for text in self.probe:
                found.append(self.answer(text))
                if found[-1][2]:
                    break
            return found


@contextmanager
def root_logger_kept() -> Iterator[None]:
    """Undo what an import does to the root logger."""
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)


@contextmanager
def _generators_kept() -> Iterator[None]:
    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)
