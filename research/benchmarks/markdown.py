"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table, a line each row, the last one ended too.

    Example:
        >>> print(markdown(["n", "n^2"], [(1, 1), (2, 4)]), end="")
        | n | n^2 |
        | --- | --- |
        | 1 | 1 |
        | 2 | 4 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)
