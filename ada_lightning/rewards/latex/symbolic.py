"""Equality of two trees: exactly where they are rational, by digits where constant, by math-verify where symbolic."""

from __future__ import annotations

import logging
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from ada_lightning.rewards.latex.cost import has_decimal, has_symbol, is_affordable, rational
from ada_lightning.rewards.latex.tree import Tree, count

if TYPE_CHECKING:
    from sympy import Basic

_DIGITS = 40
_MAX_RELATION_NODES = 60  # math-verify solves equations, which has no bound worth the name
_POINTS = (((7, 5), (11, 7)), ((19, 8), (5, 3)), ((3, 11), (13, 4)))
"""Where expressions with variables are compared before anything is simplified: start and ratio of the values, as
numerators and denominators."""


def are_equal(gold: Tree, answer: Tree, tolerance: float) -> bool:
    """Tell whether two expressions or relations mean the same.

    Equal trees are equal. Where one of them is too costly to evaluate (:func:`~ada_lightning.rewards.latex.cost.
    is_affordable`), nothing else is: see :class:`~ada_lightning.rewards.math.MathReward`. Rational values are compared
    exactly, other constants by 40 digits, both with the tolerance of :func:`close` where a decimal number occurs. What
    has variables is wrong where it differs at one of a few points, and else compared by math-verify, which simplifies
    the difference.

    Args:
        gold: the expected one.
        answer: the given one.
        tolerance: see :func:`close`.
    """
    if gold == answer:
        return True
    if not (is_affordable(gold) and is_affordable(answer)):
        return False
    is_rounded = has_decimal(gold) or has_decimal(answer)
    left, right = rational(gold), rational(answer)
    if left is not None and right is not None:
        return close(left, right, tolerance if is_rounded else 0.0)
    if "relation" in (gold[0], answer[0]) or "and" in (gold[0], answer[0]):
        is_small = max(count(gold), count(answer)) <= _MAX_RELATION_NODES
        return is_small and gold[0] == answer[0] and _verified(gold, answer)
    if has_symbol(gold) or has_symbol(answer):
        return _agree_at_points(gold, answer) and _verified(gold, answer)
    return _same_constant(gold, answer, tolerance if is_rounded else 0.0)


def close(gold: Fraction, answer: Fraction, tolerance: float) -> bool:
    """Compare two numbers: ``|gold - answer| <= tolerance * min(1, |gold|)``.

    So with 1e-6 a decimal needs six digits after the point, and small numbers need six digits that count.

    Example:
        >>> close(Fraction(1, 3), Fraction("0.333333"), 1e-6), close(Fraction(1, 3), Fraction("0.33"), 1e-6)
        (True, False)
    """
    # str(): 1e-6 means one millionth, not the nearest binary number below it
    return abs(gold - answer) <= Fraction(str(tolerance)) * min(Fraction(1), abs(gold))


def to_sympy(tree: Tree) -> Basic:
    """Build the sympy expression of an affordable tree, from its classes and never from text."""
    import sympy  # late: it costs most of a second and only some answers need it

    kind = tree[0]
    if kind == "number":
        return sympy.Rational(tree[1].numerator, tree[1].denominator)
    if kind == "symbol":
        return sympy.Symbol(tree[1], real=True)
    if kind == "constant":
        return {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "infty": sympy.oo}[tree[1]]
    if kind == "relation":
        return _relations()[tree[1]](to_sympy(tree[2]), to_sympy(tree[3]), evaluate=False)
    parts = [to_sympy(part) for part in tree[1:]]
    return _operators()[kind](*parts)


@cache
def _operators() -> dict[str, Callable[..., Any]]:
    import sympy
    from latex2sympy2_extended.logic import And

    table: dict[str, Callable[..., Any]] = {
        "add": sympy.Add,
        "multiply": sympy.Mul,
        "divide": lambda upper, lower: sympy.Mul(upper, sympy.Pow(lower, -1)),
        "power": sympy.Pow,
        "abs": sympy.Abs,
        "floor": sympy.floor,
        "ceiling": sympy.ceiling,
        "factorial": sympy.factorial,
        "binomial": sympy.binomial,
        "ln": sympy.log,
        "log": lambda argument, base=10: sympy.log(argument) / sympy.log(base),
        "exp": sympy.exp,
        "and": And,
    }
    for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"):
        table[name] = getattr(sympy, name)
    for name in ("sin", "cos", "tan"):
        table["arc" + name] = getattr(sympy, "a" + name)
    return table


@cache
def _relations() -> dict[str, Callable[..., Any]]:
    import sympy

    return {
        "=": sympy.Eq,
        "<": sympy.StrictLessThan,
        ">": sympy.StrictGreaterThan,
        "<=": sympy.LessThan,
        ">=": sympy.GreaterThan,
        "!=": sympy.Ne,
    }


def _verified(gold: Tree, answer: Tree) -> bool:
    from math_verify import verify

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that it has no time limit: the pool has one
    expected, given = to_sympy(gold), to_sympy(answer)
    return bool(verify(expected, given, timeout_seconds=None))


def _same_constant(gold: Tree, answer: Tree, tolerance: float) -> bool:
    left, right = to_sympy(gold), to_sympy(answer)
    if left == right:
        return True
    first, second = _value(left), _value(right)
    if first is None or second is None:
        return False
    import mpmath

    with mpmath.workdps(_DIGITS):
        bound = max(tolerance * min(mpmath.mpf(1), abs(first)), mpmath.mpf(10) ** (5 - _DIGITS) * abs(first))
        return bool(abs(first - second) <= bound)


def _agree_at_points(gold: Tree, answer: Tree) -> bool:
    """False where the difference of two expressions is clearly not zero at one of the points."""
    import mpmath
    from sympy import Rational

    left, right = to_sympy(gold), to_sympy(answer)
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    for start, ratio in _POINTS:
        value, factor = Rational(*start), Rational(*ratio)
        values = {}
        for symbol in symbols:
            values[symbol] = value
            value = value * factor if value < 5 else value / 7
        first, second = _value(left.xreplace(values)), _value(right.xreplace(values))
        if first is None or second is None:
            continue
        with mpmath.workdps(_DIGITS):
            if abs(first - second) > 1e-12 * max(abs(first), abs(second)):
                return False
    return True


def _value(expression: Basic) -> Any | None:
    """A constant's mpmath value with 40 digits, None where it has none."""
    import mpmath

    number = expression.evalf(_DIGITS)
    if not number.is_number or not number.is_finite:
        return None
    parts = [part.evalf(_DIGITS) for part in number.as_real_imag()]
    if not all(part.is_Float or part.is_Rational for part in parts):
        return None
    with mpmath.workdps(_DIGITS):
        return mpmath.mpc(*(part._to_mpmath(mpmath.mp.prec) for part in parts))
