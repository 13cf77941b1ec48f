r"""Whether an irrational constant is in a form of its own, or a task: ``\frac{e-1}{e}`` is ``1-\frac1e``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from ada_lightning.rewards.latex.cost import is_affordable, rational
from ada_lightning.rewards.latex.symbolic import decimal_value
from ada_lightning.rewards.latex.tree import Tree

_TRIGONOMETRIC = frozenset(("sin", "cos", "tan", "cot", "sec", "csc"))
_INVERSE = frozenset(("arcsin", "arccos", "arctan"))
_LOGARITHMS = frozenset(("ln", "log"))
_MAX_FACTORED = 10**12
_PI = Fraction(3141592653589793238462643383279502884197, 10**39)


def is_another_form(gold: Tree, answer: Tree) -> bool:
    r"""Tell whether an irrational answer is as far worked out as the gold, though it has more parts.

    Nothing in it can be carried out at once: no two numbers, no like terms or factors, no product or power of sums, no
    function at a point where its value is known. And it has no more different roots and functions of angles than the
    gold, and logarithms, powers of e, pi and i only where the gold has some: ``\sqrt8+\sqrt2`` is no form of
    ``3\sqrt2``, and ``\sin 60^\circ`` none of ``\frac{\sqrt3}2``.

    Example:
        >>> from ada_lightning.rewards.latex.grammar import read
        >>> is_another_form(read(r"1-\frac{1}{e}"), read(r"\frac{e-1}{e}"))
        True
        >>> is_another_form(read(r"3\sqrt{2}"), read(r"\sqrt{8}+\sqrt{2}"))
        False
    """
    if not (is_affordable(gold) and is_affordable(answer)) or rational(gold) is not None:
        return False
    expected, given = _families(gold), _families(answer)
    if any(given[name] > expected[name] for name in ("root", "angle", "inverse", "other")):
        return False
    if any(given[name] and not expected[name] for name in ("logarithm", "e", "pi", "i")):
        return False
    return num_tasks(answer) <= num_tasks(gold)


def has_other_functions(gold: Tree, answer: Tree) -> bool:
    r"""Whether an answer has functions of a kind that its gold has not: ``\cos 15^\circ`` for its value."""
    expected, given = _families(gold), _families(answer)
    return any(given[name] and not expected[name] for name in ("angle", "inverse", "logarithm"))


def _families(tree: Tree) -> Counter[str]:
    """How many different irrational parts of each kind there are; a reduced quotient of roots is one."""
    parts = set(_outside_of_logarithms(tree))
    found = Counter(_family(part) for part in parts)
    found["root"] -= sum(1 for part in parts if part[0] == "divide" and _is_reduced_quotient(part))
    return found


def _outside_of_logarithms(tree: Tree) -> Iterator[Tree]:
    """Parts of a tree, logarithms as wholes."""
    yield tree
    for part in tree[1:] if tree[0] not in _LOGARITHMS else ():
        if isinstance(part, tuple):
            yield from _outside_of_logarithms(part)


def _family(part: Tree) -> str:
    kind = part[0]
    if kind == "constant":
        return str(part[1])
    if kind == "power" and (exponent := rational(part[2])) is not None and exponent.denominator != 1:
        inside = rational(part[1])
        is_imaginary = inside is not None and inside < 0 and _root(-inside, exponent.denominator) is not None
        return "i" if is_imaginary else "root"
    if kind == "power" and rational(part[2]) is None and part[1] != ("constant", "e"):
        return "other"
    if kind == "exp":
        return "e"
    if kind in _LOGARITHMS:
        return "logarithm"
    if kind in _TRIGONOMETRIC:
        return "angle"
    if kind in _INVERSE:
        return "inverse"
    return "other" if kind in ("sinh", "cosh", "tanh", "factorial", "binomial", "abs", "floor", "ceiling") else ""


def _is_reduced_quotient(part: Tree) -> bool:
    r"""``\frac{\sqrt2}{\sqrt3}``, which is as simple as its root of a ratio; ``\sqrt6/\sqrt2`` is a task."""
    insides = [rational(side[1]) if side[0] == "power" and _family(side) == "root" else None for side in part[1:]]
    if None in insides or part[1][2] != part[2][2]:
        return False
    top, bottom = (inside.numerator if inside and inside.denominator == 1 else 0 for inside in insides)
    return math.gcd(top, bottom) == 1


def num_tasks(tree: Tree) -> int:
    """Operations that anybody would carry out."""
    kind, parts = tree[0], [part for part in tree[1:] if isinstance(part, tuple)]
    if rational(tree) is not None:
        return int(not _is_plain(tree))
    inside = sum(num_tasks(part) for part in parts)
    if kind == "add":
        return inside + _num_alike([_without_number(part) for part in _operands(kind, tree)])
    if kind == "multiply":
        factors = list(_operands(kind, tree))
        numbers = [part for part in factors if rational(part) is not None and part[:2] != ("number", Fraction(-1))]
        sums = [part for part in factors if part[0] == "add"]
        others = [part for part in factors if rational(part) is None and part[0] != "add"]
        return inside + max(len(numbers) - 1, 0) + max(len(sums) - 1, 0) + _num_alike([_kernel(p) for p in others])
    if kind == "divide" and all(part[0] == "power" and _family(part) == "root" for part in parts):
        return inside + int(not _is_reduced_quotient(tree))
    if kind == "power":
        exponent = rational(tree[2])
        is_whole = exponent is not None and exponent.denominator == 1 and abs(exponent) > 1
        is_empty = exponent in (0, 1)
        base = rational(tree[1])
        is_drawn = (
            exponent is not None and base is not None and base > 0 and _root(base, exponent.denominator) is not None
        )
        return inside + int(is_whole and parts[0][0] not in ("constant", *_LOGARITHMS)) + int(is_drawn or is_empty)
    return inside + int(_is_known(tree))


def _is_plain(tree: Tree) -> bool:
    """Whether a rational part is one number as people write it, an exponent among them."""
    if tree[0] == "number":
        return True
    if tree[0] == "multiply" and len(tree) == 3 and tree[1][:2] == ("number", Fraction(-1)):
        return _is_plain(tree[2])
    return tree[0] == "divide" and all(part[0] == "number" for part in tree[1:])


def _operands(kind: str, tree: Tree) -> Iterator[Tree]:
    for part in tree[1:]:
        if part[0] == kind:
            yield from _operands(kind, part)
        else:
            yield part


def _without_number(term: Tree) -> Tree:
    """A term without its rational factors: like terms are equal then."""
    if rational(term) is not None:
        return ("number", Fraction(1), False)
    if term[0] == "multiply":
        others = [_without_number(part) for part in _operands("multiply", term) if rational(part) is None]
        others.sort(key=repr)
        return others[0] if len(others) == 1 else ("multiply", *others)
    if term[0] == "divide" and rational(term[2]) is not None:
        return _without_number(term[1])
    return term


def _kernel(factor: Tree) -> Tree:
    """What a factor is a power of; one name for all roots of numbers, which multiply at once."""
    if factor[0] == "power" and _family(factor) == "root":
        return ("root", factor[2]) if rational(factor[1]) is not None else factor[1]
    if factor[0] == "exp":
        return ("constant", "e")
    return factor[1] if factor[0] == "power" else factor


def _num_alike(parts: list[Tree]) -> int:
    return sum(number - 1 for number in Counter(parts).values())


def _root(number: Fraction, order: int) -> Fraction | None:
    """The exact root of a number, None where it is irrational."""
    found = []
    for part in (number.numerator, number.denominator):
        if part > _MAX_FACTORED or order > 40:
            return None
        near = round(part ** (1 / order))
        if near**order != part:
            return None
        found.append(near)
    return Fraction(found[0], found[1])


def _is_known(tree: Tree) -> bool:
    """Whether a function is taken where its value is a number or an angle that people know."""
    kind = tree[0]
    if kind in _TRIGONOMETRIC:
        turns = _times_pi(tree[1])
        return turns is not None and turns.denominator in (1, 2, 3, 4, 6)
    if kind in _INVERSE:
        angle = decimal_value(tree)
        turns = None if angle is None else angle / _PI
        return turns is not None and abs(turns - turns.limit_denominator(12)) < Fraction(1, 10**25)
    if kind in _LOGARITHMS:
        base = rational(tree[2]) if len(tree) > 2 else Fraction(10) if kind == "log" else None
        value = rational(tree[1])
        return value is not None and (value == 1 or (base is not None and _is_power_of(value, base)))
    return False


def _times_pi(angle: Tree) -> Fraction | None:
    """How many times pi an angle is; None where it is no rational multiple."""
    factors = list(_operands("multiply", angle)) if angle[0] == "multiply" else [angle]
    total, num_pi = Fraction(1), 0
    for factor in factors:
        top, bottom = (factor[1], rational(factor[2])) if factor[0] == "divide" else (factor, Fraction(1))
        if top[0] == "multiply" and bottom:
            inner = _times_pi(top)
            if inner is None:
                return None
            total, num_pi = total * inner / bottom, num_pi + 1
            continue
        number = rational(top)
        if not bottom or (number is None and top != ("constant", "pi")):
            return None
        num_pi += number is None
        total = total * (1 if number is None else number) / bottom
    return total if num_pi == 1 or (total == 0 and not num_pi) else None


def _is_power_of(value: Fraction, base: Fraction) -> bool:
    if base <= 0 or base == 1 or value <= 0:
        return False
    near = Fraction(math.log(value) / math.log(base)).limit_denominator(12)
    return bool(abs(near.numerator) < 200 and value**near.denominator == base**near.numerator)
