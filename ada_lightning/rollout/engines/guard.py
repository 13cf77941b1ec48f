"""Tell a broken engine from every other error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class EngineError(RuntimeError):
    """The engine broke; a restarted one can repeat the step."""

    def for_people(self, folder: Path) -> str:
        """Say what a sampling job that ends with this leaves, and how it goes on.

        Args:
            folder: of the job.
        """
        return (
            f"the engine broke and could not be replaced ({self}); {folder / 'engine.log'} may tell more. Finished "
            "prompts are stored, and the same command again continues; out of memory: lower rollout.engine.max_num_seqs"
        )


def guarded(call: Callable[..., T], *args: object) -> T:
    """Call a method of the engine.

    Raises:
        EngineError: whatever it raised.
    """
    try:
        return call(*args)
    except EngineError:
        raise
    except Exception as error:
        raise EngineError(f"{type(error).__name__}: {error}") from error
