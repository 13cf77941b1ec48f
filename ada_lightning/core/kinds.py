"""Messages of many rows as the few kinds that they are."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
