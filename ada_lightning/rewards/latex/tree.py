"""The tree that the grammar makes of an expression: tuples, and what is asked of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

Tree = tuple[Any, ...]
"""``("number", Fraction, is_decimal)``, ``("symbol", name)``, ``("constant", name)``, or an operator, ``add``,
``multiply``, ``divide``, ``power``, ``relation`` or the name of a function, with its operands."""
MAX_NODES = 400


def walk(tree: Tree) -> Iterator[Tree]:
    """Yield a tree and all of its parts.

    Example:
        >>> len(list(walk(("add", ("symbol", "x"), ("symbol", "y")))))
        3
    """
    yield tree
    for part in tree[1:]:
        if isinstance(part, tuple):
            yield from walk(part)


def symbols(tree: Tree) -> frozenset[str]:
    """Names of the variables of a tree."""
    return frozenset(part[1] for part in walk(tree) if part[0] == "symbol")


def substitute(tree: Tree, values: Mapping[str, Fraction]) -> Tree:
    """Put numbers in the place of variables."""
    if tree[0] == "symbol" and tree[1] in values:
        return "number", values[tree[1]], False
    return tuple(substitute(part, values) if isinstance(part, tuple) else part for part in tree)


def renamed(tree: Tree, names: Mapping[str, str]) -> Tree:
    """Give variables other names."""
    if tree[0] == "symbol":
        return "symbol", names.get(tree[1], tree[1])
    return tuple(renamed(part, names) if isinstance(part, tuple) else part for part in tree)


def negative(tree: Tree) -> Tree:
    """Return the tree of the opposite; of a number its own opposite, so that -5 is one number."""
    if tree[0] == "number" and tree[1] >= 0:
        return "number", -tree[1], tree[2]
    return joined("multiply", ("number", Fraction(-1), False), tree)


def joined(operator: str, left: Tree, right: Tree) -> Tree:
    """Put a further operand to a sum or product."""
    return (*left, right) if left[0] == operator else (operator, left, right)
