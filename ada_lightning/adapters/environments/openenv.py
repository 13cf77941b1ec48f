"""Environments on an OpenEnv server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ada_lightning.adapters.environments.library import SeededEnvironment


class OpenEnvEnvironment(SeededEnvironment):
    """A server's environment, whose actions have one text and whose observations have one that the model reads.

    A session lives as long as its connection, and connections cannot be kept between turns. So every turn opens a
    session of its own, resets it with the task's seed and takes all turns again. That verifies the seed each time: an
    episode in which the server answers otherwise than before is no evidence, as where it cannot be reached.

    Args:
        name: address of the server, such as ``http://127.0.0.1:8000``.
        action: field of its actions that has the model's turn.
        observation: field of its observations that the model reads.
        arguments: of ``reset``, besides ``seed``.
        probe: turns by which seeds are tested at start; None: one that suits a game of numbers.
    """

    package, tested = "openenv-core", ((0, 3), (0, 4))
    modules = ("openenv.core.generic_client",)

    def __init__(
        self,
        name: str,
        action: str,
        observation: str,
        arguments: Mapping[str, Any] | None = None,
        probe: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, arguments, probe)
        self.action, self.observation = action, observation
        self.turns: list[str] = []
        self.heard: list[tuple[str, float, bool]] = []

    def begin(self, seed: int) -> str:
        """Reset a session."""
        self.seed, self.turns, self.heard = seed, [], []
        return self._go_on()[0]

    def answer(self, text: str) -> tuple[str, float, bool]:
        """Take all turns in a new session."""
        self.turns.append(text)
        return self._go_on()

    def _go_on(self) -> tuple[str, float, bool]:
        from openenv.core.generic_client import GenericEnvClient

        with GenericEnvClient(self.name).sync() as client:
            results = [client.reset(seed=self.seed, **self.arguments)]
            results += [client.step({self.action: text}) for text in self.turns]
        said = [(str(each.observation[self.observation]), float(each.reward or 0.0), each.done) for each in results]
        if said[:-1] != self.heard:
            raise ConnectionError(f"{self.name} gives different answers to the same turns with seed {self.seed}")
        self.heard = said
        return said[-1]
