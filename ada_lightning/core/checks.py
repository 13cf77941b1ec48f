"""Settings that cannot work are refused all at once, and messages about many rows told by kind."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from difflib import get_close_matches
from numbers import Real
from operator import index
from typing import Any


def unmet(*rules: tuple[bool, str, object]) -> list[str]:
    """Return a line for every rule that does not hold, each given as (whether it holds, what must be, what is).

    Example:
        >>> unmet((True, "a.size must be at least 1", 3), (False, "a.rate must be in [0, 1]", 2.5))
        ['a.rate must be in [0, 1]; got 2.5']
    """
    return [f"{must_be}; got {value}" for holds, must_be, value in rules if not holds]


def similar(name: str, known: Iterable[str], *, n: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return what may be meant by a name that is not known: at most ``n`` names, the most similar first.

    Upper and lower case count as the same; a name that differs in nothing else is returned alone.

    Args:
        name: that somebody wrote.
        known: names that there are.
        n: at least 1.
        cutoff: least similarity, from 0 to 1, as :func:`difflib.get_close_matches` measures it.

    Example:
        >>> similar("balanec", ["uniform", "balance"]), similar("GRPO", ["gspo", "grpo"], n=2)
        (['balance'], ['grpo'])
    """
    by_lower = {each.lower(): each for each in known}
    if (lower := name.lower()) in by_lower:
        return [by_lower[lower]]
    return [by_lower[each] for each in get_close_matches(lower, by_lower, n=n, cutoff=cutoff)]


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


def not_text(**settings: object) -> list[str]:
    r"""Return a line for every setting of ``data.source`` that is neither text nor None, such as a number.

    Example:
        >>> not_text(answer_column=0, task="sums", system_prompt=None)
        ['data.source.answer_column must be text; got 0; write it in quotes: \'data.source.answer_column="0"\'']
    """
    return [
        f"data.source.{name} must be text; got {value}; write it in quotes: 'data.source.{name}=\"{value}\"'"
        for name, value in settings.items()
        if not isinstance(value, str | None)
    ]


def finite_number(value: Any) -> float | None:
    """Return a real number of any kind as a float; None where it is anything else, or not finite.

    Kinds are bool, int, float, ``Fraction``, ``Decimal``, sympy's ``Rational`` and ``Float``, and the scalars of array
    libraries.

    Example:
        >>> from fractions import Fraction
        >>> finite_number(True), finite_number(Fraction(1, 4)), finite_number(float("nan")), finite_number("1.0")
        (1.0, 0.25, None, None)
    """
    try:
        number = value.item() if hasattr(value, "item") else value
        return float(number) if isinstance(number, Real | Decimal) and math.isfinite(number) else None
    except (ValueError, RuntimeError, OverflowError):  # an array of several numbers, an integer beyond all floats
        return None


def truth_value(value: Any) -> bool | None:
    """Return a truth value, Python's or an array library's, as a bool; None where it is anything else.

    Example:
        >>> truth_value(True), truth_value(1), truth_value("length")
        (True, None, None)
    """
    try:
        found = value.item() if hasattr(value, "item") else value
    except (TypeError, ValueError, RuntimeError):  # an array of several values
        return None
    return found if isinstance(found, bool) else None


def whole_number(value: Any) -> int | None:
    """Return an int, or an array library's whole number, as an int; None where it is anything else, as a truth value.

    Example:
        >>> whole_number(3), whole_number(3.0), whole_number("3"), whole_number(True)
        (3, None, None, None)
    """
    try:
        return index(value) if truth_value(value) is None else None
    except TypeError:
        return None


def checked_whole(name: str, value: Any, *, least: int) -> int:
    """Return a whole number of at least ``least`` as an int.

    Raises:
        ValueError: the value is anything else.

    Example:
        >>> checked_whole("open_steps", 1.5, least=1)
        Traceback (most recent call last):
        ValueError: open_steps must be a whole number of at least 1; got 1.5
    """
    number = whole_number(value)
    if number is None or number < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return number


_OF_ONE_ROW = re.compile(r"(?<!\w)'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\d+(?:\.\d+)?")


def kind_of(message: str) -> str:
    """Return a message without what it quotes and without numbers: the same for all rows with that fault.

    Example:
        >>> kind_of("its answer '5:12' has 4 characters")
        "its answer '...' has ... characters"
    """
    return _OF_ONE_ROW.sub(lambda found: "'...'" if found[0][0] in "'\"" else "...", message)


def by_kind(messages: Iterable[str]) -> list[tuple[int, int]]:
    """Return how many messages there are of each kind, most frequent first, and the position of the first of them.

    Example:
        >>> by_kind(["no number in 'a'", "empty", "no number in 'b'"])
        [(2, 0), (1, 1)]
    """
    found: dict[str, list[int]] = {}
    for position, message in enumerate(messages):
        count = found.setdefault(kind_of(message), [0, position])
        count[0] += 1
    return sorted(((count, first) for count, first in found.values()), key=lambda pair: -pair[0])
