"""Settings that cannot work are refused all at once, each with what it must be and what it is."""

from __future__ import annotations


def unmet(*rules: tuple[bool, str, object]) -> list[str]:
    """Return a line for every rule that does not hold, each given as (whether it holds, what must be, what is).

    Example:
        >>> unmet((True, "a.size must be at least 1", 3), (False, "a.rate must be in [0, 1]", 2.5))
        ['a.rate must be in [0, 1]; got 2.5']
    """
    return [f"{must_be}; got {value}" for holds, must_be, value in rules if not holds]


def refuse(*problems: str | bool) -> None:
    """Raise one ValueError with all of the messages; what is false is none.

    Example:
        >>> refuse(1 > 2 and "not said")
        >>> refuse(2 > 1 and "rank must be ...; got 0", 3 > 1 and "alpha must be ...; got -1")
        Traceback (most recent call last):
        ValueError: rank must be ...; got 0; alpha must be ...; got -1
    """
    if found := [problem for problem in problems if isinstance(problem, str) and problem]:
        raise ValueError("; ".join(found))
