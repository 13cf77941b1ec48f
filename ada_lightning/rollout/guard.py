"""Tell a broken engine from every other error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class EngineError(RuntimeError):
    """The engine broke; a restarted one can repeat the step."""


def guarded(call: Callable[..., T], *args: object) -> T:
    """Call a method of the engine.

    Raises:
        EngineError: whatever it raised.
    """
    try:
        return call(*args)
    except Exception as error:
        raise EngineError(f"{type(error).__name__}: {error}") from error
