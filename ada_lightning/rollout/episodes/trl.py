"""Environments written for TRL's ``environment_factory``."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from typing import Any

from ada_lightning.core.protocols.environment import End, Environment, Say
from ada_lightning.core.records import Completion, Prompt
from ada_lightning.rewards.user_function import sample_columns

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_NO_TOOLS = ("reset", "get_reward")


class TrlEnvironment(Environment):
    """Runs a class of TRL's protocol (1.16): ``reset(**row)``, public methods as tools, perhaps ``get_reward()``.

    A turn of the model calls tools by ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, the form of Qwen,
    SmolLM3 and others; a turn without a call ends the episode, which ``get_reward()`` scores, or the configured reward
    where the class has none. A tool that raises, is unknown or is called by text that is no JSON answers
    ``{'error': ...}``, as in TRL. Methods may be ``async``.

    Unlike in TRL, the instance is new for every episode and must be picklable between turns. The results of several
    calls stand in one answer, and results are text. ``reset`` must return nothing: all that the model has to know must
    be in the prompt, tools included (``data.source.system_prompt``, or ``data.format.arguments.tools`` if the template
    reads them).

    Args:
        path: ``package.module.Class``, whose constructor takes no arguments.

    Raises:
        ValueError: ``path`` is not a dotted name.
    """

    def __init__(self, path: str) -> None:
        if not all(name.isidentifier() for name in path.split(".")) or "." not in path:
            raise ValueError(f"environment.arguments.path must be 'package.module.Class'; got {path!r}")
        self.path = path
        self.inner: Any = None

    def check(self) -> None:
        """Import the class and look for what TRL wants of it.

        Raises:
            ValueError: it cannot be imported or made, has no ``reset``, or offers no tool.
        """
        try:
            made = self._made()
        except Exception as error:  # the user's module may fail in any way; the cause is chained
            raise ValueError(
                f"cannot make environment.arguments.path = {self.path!r}: {type(error).__name__}: {error}. Its module "
                "must be importable, and its constructor takes no arguments"
            ) from error
        if not callable(getattr(made, "reset", None)):
            raise ValueError(f"{self.path} has no method `reset`, so it is not an environment of TRL")
        if not _tools(made):
            raise ValueError(
                f"{self.path} has no public method other than reset and get_reward, so the model has nothing to call"
            )

    async def start(self, prompt: Prompt, seed: int) -> None:
        """Make the environment and reset it with the sample's columns.

        Raises:
            ValueError: ``reset`` returned something for the model to read, which is not in the prompt.
        """
        self.inner = self._made()
        row = {"prompt": [dict(turn) for turn in prompt.messages]} | sample_columns(prompt)
        observation = await _result(self.inner.reset(**row))
        if observation is not None:
            raise ValueError(
                f"{self.path}.reset returned {str(observation)[:100]!r} for the model to read; put it into the prompt "
                "of the data, where it counts as part of the task"
            )

    async def turn(self, said: Completion) -> Say | End:
        """Carry out the calls of a turn; without any, end."""
        calls = _CALL.findall(said.text)
        if not calls:
            return await self.cut()
        results = [await self._called(call) for call in calls]
        num_errors = sum(isinstance(result, _ToolError) for result in results)
        return Say("\n".join(str(result) for result in results), num_calls=len(calls), num_call_errors=num_errors)

    async def cut(self) -> End:
        """Ask the environment what the episode is worth."""
        score = getattr(self.inner, "get_reward", None)
        return End() if score is None else End(reward=await _result(score()))

    def _made(self) -> Any:
        module, _, name = self.path.rpartition(".")
        return getattr(importlib.import_module(module), name)()

    async def _called(self, text: str) -> Any:
        """Result of a tool; what it raises is told to the model."""
        try:
            call = json.loads(text)
            tools, name = _tools(self.inner), call["name"]
            if name not in tools:
                raise ValueError(f"Tool {name} not found.")
            return await _result(tools[name](**call.get("arguments", {})))
        except MemoryError:
            raise
        except Exception as error:
            return _ToolError({"error": str(error)})


class _ToolError(dict[str, str]):
    """What a model is told of a call that failed."""


def _tools(environment: Any) -> dict[str, Any]:
    members = inspect.getmembers(type(environment), predicate=inspect.isfunction)  # of the class: properties stay alone
    names = [name for name, _ in members if name not in _NO_TOOLS and not name.startswith("_")]
    return {name: getattr(environment, name) for name in names}


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
