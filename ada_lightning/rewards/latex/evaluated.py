r"""How much of a constant is left to compute: ``123+456`` is a task, 579 its answer."""

from __future__ import annotations

from ada_lightning.rewards.latex.cost import is_affordable, rational
from ada_lightning.rewards.latex.forms import has_other_functions, is_another_form, num_tasks
from ada_lightning.rewards.latex.tree import Tree, symbols

_ARITHMETIC = frozenset(("add", "multiply", "divide", "power", "factorial", "binomial", "abs", "floor", "ceiling"))


def num_open(tree: Tree) -> int:
    r"""Count the operations of a constant that are still to be carried out, and its roots, functions, pi, e and i.

    None are open in a number as people write it: an integer, a decimal, a ratio of integers that is no integer (reduced
    or not), a mixed number, a multiple of a power of ten. A sign, and what joins one number to a root or to pi, count
    nothing: of ``2+3\sqrt{5}`` only the root is open. So an answer with no more than its gold is worked out as far as
    the gold. Nothing is computed here: the time is linear in the size of the tree.

    Example:
        >>> from ada_lightning.rewards.latex.grammar import read
        >>> [num_open(read(text)) for text in (r"-\frac{1}{2}", r"3 \times 10^4", r"\frac{6}{3}", "2+3", r"3^2\pi")]
        [0, 0, 1, 1, 2]
    """
    if _is_literal(tree):
        return 0
    kind = tree[0]
    if kind in ("symbol", "constant"):
        return 1
    parts = _flat(kind, tree)
    inside = sum(num_open(part) for part in parts)
    if kind in ("add", "multiply"):
        numbers = [part for part in parts if _is_arithmetic(part)]
        return inside + max(len(numbers) - _num_signs(kind, numbers, parts) - 1, 0)
    if kind == "divide":
        return inside + all(_is_arithmetic(part) for part in parts)
    return inside + (2 if kind == "exp" else 1)  # a power of the constant e has two, too


def is_worked_out(gold: Tree, answer: Tree) -> bool:
    r"""Tell whether an answer is worked out as far as the gold, so that no task is its own answer.

    - The gold is a constant: the answer is one, too, with no more open operations (:func:`num_open`), or in another
      form that is as simple (:func:`~ada_lightning.rewards.latex.forms.is_another_form`).
    - It is solved (``x = 5``, ``1 < x``): the answer is solved, too, with the constant worked out.
    - It has variables otherwise: the answer has none but those. ``2x+x`` is ``3x`` then: what counts as simplified
      depends on the task (expand, factor), and the gold does not tell which.

    Example:
        >>> from ada_lightning.rewards.latex.grammar import read
        >>> pairs = ("5", "2+3"), (r"\sqrt{8}", r"2\sqrt{2}"), ("x=5", "2x=10")
        >>> [is_worked_out(read(gold), read(answer)) for gold, answer in pairs]
        [False, True, False]
    """
    expected, given = _relations(gold), _relations(answer)
    if not expected:
        if symbols(gold):
            return symbols(answer) <= symbols(gold)
        if given or symbols(answer):
            return False
        if not (is_affordable(gold) and is_affordable(answer)):
            return gold == answer
        if rational(gold) is None and (has_other_functions(gold, answer) or num_tasks(answer) > num_tasks(gold)):
            return False  # arctan 1 for pi/4
        return num_open(answer) <= num_open(gold) or is_another_form(gold, answer)
    if not all(_is_solved(relation) for relation in expected):
        return bool(given) and symbols(answer) <= symbols(gold)
    return bool(given) and all(
        _is_solved(relation) and _open_sides(relation) <= _open_sides(expected[0]) for relation in given
    )


def _relations(tree: Tree) -> list[Tree]:
    return [part for part in (tree[1:] if tree[0] == "and" else [tree]) if part[0] == "relation"]


def _is_solved(relation: Tree) -> bool:
    sides = relation[2:]
    return any(side[0] == "symbol" and not symbols(other) for side, other in (sides, sides[::-1]))


def _open_sides(relation: Tree) -> int:
    return sum(num_open(side) for side in relation[2:])


def _is_literal(tree: Tree) -> bool:
    kind, parts = tree[0], tree[1:]
    if kind == "number":
        return True
    if kind == "divide":
        is_ratio = all(_is_integer(part) for part in parts)
        return is_ratio and bool(parts[1][1]) and parts[0][1] % parts[1][1] != 0
    if kind == "multiply":
        return len(parts) == 2 and parts[0][0] == "number" and _is_power_of_ten(parts[1])
    return _is_power_of_ten(tree)


def _is_integer(tree: Tree) -> bool:
    return tree[0] == "number" and not tree[2] and tree[1].denominator == 1


def _is_power_of_ten(tree: Tree) -> bool:
    return tree[0] == "power" and _is_integer(tree[1]) and tree[1][1] == 10 and _is_integer(tree[2])


def _is_arithmetic(tree: Tree) -> bool:
    """Whether it has numbers and elementary operations only; roots are none of them."""
    if tree[0] == "number":
        return True
    if tree[0] == "power" and not _is_integer(tree[2]):
        return False
    return tree[0] in _ARITHMETIC and all(_is_arithmetic(part) for part in tree[1:])


def _flat(kind: str, tree: Tree) -> list[Tree]:
    """Operands; those of a sum in a sum, or a product in a product, are of the outer one."""
    parts: list[Tree] = []
    for part in tree[1:]:
        if isinstance(part, tuple):
            parts += _flat(kind, part) if part[0] == kind and kind in ("add", "multiply") else [part]
    return parts


def _num_signs(kind: str, numbers: list[Tree], parts: list[Tree]) -> int:
    r"""Factors of -1 that are the one sign of a product, not a second one.

    A sign before a number is read as part of it, so in a product of nothing but numbers a -1 is a factor that somebody
    wrote, as in ``0 \times -1``.
    """
    if kind != "multiply" or all(part[0] == "number" for part in parts):
        return 0
    signs = [number for number in numbers if number[0] == "number" and number[1] == -1 and not number[2]]
    others = [number for number in numbers if number not in signs]
    return int(len(signs) == 1 and not any(part[0] == "number" and part[1] < 0 for part in others))
