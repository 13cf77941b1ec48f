"""What a response of several turns is made of: an episode with an environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model said, and what the environment answered."""

    text: str
    """Of the model, untrusted."""
    reply: str = ""
    """Of the environment; empty where the episode ended with this turn."""
    num_calls: int = 0
    """Calls of tools in it."""
    num_call_errors: int = 0
    """Those that could not be carried out."""
    seconds: float = field(default=0.0, compare=False)
    """Wall-clock time of the environment for it, by its worker."""


@dataclass(frozen=True, slots=True)
class Episode:
    """The turns behind one response. To whoever samples, it is one request with one verdict."""

    turns: tuple[Turn, ...]
    is_sampled: tuple[bool, ...]
    """Of every response token: whether the model drew it. The others are the environment's and the chat template's:
    they are passed through the model and never train."""
    ended_by: str
    """``done``: the environment ended it. A limit did: ``length`` (the tokens of one turn), ``turns``, ``context`` (no
    room for a further turn). ``failed``: the environment could not answer."""

    @property
    def num_sampled(self) -> int:
        """Tokens that the model drew."""
        return sum(self.is_sampled)

    def sampled(self, values: Sequence[T]) -> tuple[T, ...]:
        """Return those of some values by response token that belong to tokens of the model."""
        return tuple(compress(values, self.is_sampled))
