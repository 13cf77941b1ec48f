"""One hostile response, what it is graded against, and what it is worth."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """A response with its known verdict."""

    family: str
    gold: str
    text: str
    expected: float | None
    """None where any verdict, a failed one too, is acceptable: only that it comes back counts."""
