"""Settings that cannot work are refused all at once, each with what it must be and what it is."""

from __future__ import annotations

from collections.abc import Sequence


def unmet(*rules: tuple[bool, str, object]) -> list[str]:
    """Return a line for every rule that does not hold, each given as (whether it holds, what must be, what is).

    Example:
        >>> unmet((True, "a.size must be at least 1", 3), (False, "a.rate must be in [0, 1]", 2.5))
        ['a.rate must be in [0, 1]; got 2.5']
    """
    return [f"{must_be}; got {value}" for holds, must_be, value in rules if not holds]


def refuse(errors: Sequence[str]) -> None:
    """Raise one ValueError with all of the messages; nothing where there are none."""
    if errors:
        raise ValueError("; ".join(errors))
