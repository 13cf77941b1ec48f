"""Errors of a broken engine, apart from all others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class EngineError(RuntimeError):
    """The engine broke; a restarted one can repeat the step."""

    def for_people(self, folder: Path) -> str:
        """Say what a sampling job that ends with this leaves in its folder, and how it goes on."""
        return (
            f"the engine broke and could not be replaced ({self}); {folder / 'engine.log'} may tell more. Finished "
            "prompts are stored, and the same command again continues; out of memory: lower rollout.engine.max_num_seqs"
        )


def guarded(call: Callable[..., T], *args: object, **options: object) -> T:
    """Call a method of the engine.

    Raises:
        EngineError: whatever it raised.
    """
    try:
        return call(*args, **options)
    except EngineError:
        raise
    except Exception as error:
        raise EngineError(f"{type(error).__name__}: {error}") from error


def check_fits(num_prompt_tokens: int, max_new_tokens: int, max_model_tokens: int) -> None:
    """Refuse a request whose prompt and longest response exceed what the engine has for both, in tokens.

    Raises:
        ValueError: they exceed it.
    """
    needed = num_prompt_tokens + max_new_tokens
    if needed > max_model_tokens:
        raise ValueError(
            f"a prompt of {num_prompt_tokens} tokens and a response of {max_new_tokens} need {needed} "
            f"tokens; the engine has room for {max_model_tokens}: raise rollout.max_model_tokens "
            "or lower data.max_prompt_tokens"
        )
