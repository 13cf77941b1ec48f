"""Prompts that an environment makes: the tasks that it begins with."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from ada_lightning.core.checks import not_text, refuse
from ada_lightning.core.records import Prompt
from ada_lightning.data.prompts import stable_hash

SEEDS_APART = 10**6
"""Tasks by which the seeds of two runs are apart."""


class EnvironmentTasks:
    """Tasks by number, each with what the environment says first as the prompt; held-out ones are other numbers.

    Args:
        path: class of the environment, whose method ``first(seed)`` says how a task begins.
        arguments: of its constructor.
        num_train: training prompts.
        num_heldout: held-out prompts; 0 for none.
        seed: of the tasks: their numbers begin at a million times this.
        system_prompt: first turn of every prompt; None for none.

    Raises:
        ValueError: a count is out of range, or there is no environment.
    """

    def __init__(
        self,
        path: str | None,
        arguments: Mapping[str, Any] | None = None,
        *,
        num_train: int,
        num_heldout: int,
        seed: int,
        system_prompt: str | None = None,
    ) -> None:
        refuse(*not_text(system_prompt=system_prompt))
        if num_train < 1 or num_heldout < 0 or num_train + num_heldout > SEEDS_APART:
            raise ValueError(
                "data.source needs num_train of at least 1, num_heldout of at least 0, and at most "
                f"{SEEDS_APART} tasks in all; got {num_train} and {num_heldout}"
            )
        if not path:
            raise ValueError(
                "data=environment takes its prompts from the environment, and environment=none has none; choose one, "
                "such as environment=textarena environment.arguments.name=GuessTheNumber-v0"
            )
        self.path, self.arguments = path, dict(arguments or {})
        self.num_train, self.num_heldout, self.seed = num_train, num_heldout, seed
        self.system_prompt = system_prompt

    def train_prompts(self) -> Sequence[Prompt]:
        """Prompts to learn from."""
        return self._made[self.num_heldout :]

    def heldout_prompts(self) -> Sequence[Prompt]:
        """Prompts to evaluate on; none of them is a training prompt."""
        return self._made[: self.num_heldout]

    def check(self) -> None:
        """Look whether the environment has tasks by number.

        Raises:
            ValueError: it has none, or cannot be imported.
        """
        self._kind()

    def _kind(self) -> Any:
        module, _, name = self.path.rpartition(".")
        try:
            kind = getattr(importlib.import_module(module), name)
        except Exception as error:  # the user's module may fail in any way; the cause is chained
            raise ValueError(f"cannot import data.source.path = {self.path!r}: {error}") from error
        if not callable(getattr(kind, "first", None)):
            raise ValueError(
                f"{self.path} has no method `first(seed)` that says how a task begins; take prompts from elsewhere, "
                "such as data=dataset"
            )
        return kind

    @cached_property
    def _made(self) -> list[Prompt]:
        environment = self._kind()(**self.arguments)
        system = ({"role": "system", "content": self.system_prompt},) if self.system_prompt else ()
        prompts = []
        for number in range(self.num_train + self.num_heldout):
            seed = self.seed * SEEDS_APART + number
            messages = (*system, {"role": "user", "content": environment.first(seed)})
            prompt_id = stable_hash(self.path, self.arguments, [dict(message) for message in messages], seed)
            prompts.append(Prompt(prompt_id, messages, {"seed": seed}, "environment"))
        return prompts
