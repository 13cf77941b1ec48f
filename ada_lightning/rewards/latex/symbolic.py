"""Equality of two trees: exactly where they are rational, by digits where constant, by math-verify where symbolic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from ada_lightning.rewards.latex.cost import has_decimal, has_symbol, is_affordable, rational
from ada_lightning.rewards.latex.cpu_budget import CpuBudget
from ada_lightning.rewards.latex.tolerance import EXACT, Tolerance
from ada_lightning.rewards.latex.tree import Tree

if TYPE_CHECKING:
    from sympy import Basic

_DIGITS = 40
_SLACK = 1e-32  # relative: eight digits for what is lost in rounding
_POINTS = (((7, 5), (11, 7)), ((19, 8), (5, 3)), ((3, 11), (13, 4)))
"""Where expressions with variables are compared before anything is simplified: start and ratio of the values, as
numerators and denominators."""


def are_equal(gold: Tree, answer: Tree, tolerance: Tolerance, budget: CpuBudget) -> bool:
    """Tell whether two expressions or relations mean the same.

    Equal trees are equal. Where one of them is too costly to evaluate (:func:`~ada_lightning.rewards.latex.cost.
    is_affordable`), nothing else is: see :class:`~ada_lightning.rewards.math.MathReward`. Rational values are compared
    exactly, other constants by 40 digits, both with the tolerance where a decimal number occurs. What
    has variables is wrong where it differs at one of a few points, and else compared by math-verify, which simplifies
    the difference. The budget is for what no bound is known of beforehand: everything but rational numbers.

    Raises:
        CpuBudgetError: the budget is spent.
    """
    if gold == answer:
        return True
    if not (is_affordable(gold) and is_affordable(answer)):
        return False
    is_rounded = has_decimal(gold) or has_decimal(answer)
    left, right = rational(gold), rational(answer)
    if left is not None and right is not None:
        return (tolerance if is_rounded else EXACT).accepts(left, right)
    _load_algebra()  # most of a second, once, that no answer pays for
    with budget.spend():
        return _same_by_algebra(gold, answer, tolerance if is_rounded else EXACT)


def _same_by_algebra(gold: Tree, answer: Tree, tolerance: Tolerance) -> bool:
    if {"relation", "and"} & {gold[0], answer[0]}:
        return _same_relations(_relations(gold), _relations(answer))
    if has_symbol(gold) or has_symbol(answer):
        return _same_expression(to_sympy(gold), to_sympy(answer))
    return _same_constant(gold, answer, tolerance)


@cache
def _load_algebra() -> None:
    import math_verify
    import sympy.physics.units  # noqa: F401 - sympy loads it when it compares

    # It warns that it has no time limit: the budget is one, and the pool has another.
    logging.getLogger(math_verify.__name__).setLevel(logging.ERROR)


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
    parts = [to_sympy(part) for part in tree[1:]]
    if kind == "power" and _is_odd_root(*parts):
        return -((-parts[0]) ** parts[1])
    return _operators()[kind](*parts)


def _is_odd_root(base: Any, exponent: Any) -> bool:
    """Whether it is the cube root of -8 or the like: -2 where people write answers, and complex in sympy."""
    return bool(exponent.is_Rational and exponent.p == 1 and exponent.q % 2 and exponent.q > 1 and base.is_negative)


@cache
def _operators() -> dict[str, Callable[..., Any]]:
    import sympy

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
    }
    for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"):
        table[name] = getattr(sympy, name)
    for name in ("sin", "cos", "tan"):
        table["arc" + name] = getattr(sympy, "a" + name)
    return table


def _relations(tree: Tree) -> list[Tree]:
    """The relations of a chain such as ``1 < x < 3``, all of them written with the smaller side left."""
    turned = {">": "<", ">=": "<="}
    return [
        ("relation", turned[part[1]], part[3], part[2]) if part[1] in turned else part
        for part in (tree[1:] if tree[0] == "and" else [tree])
        if part[0] == "relation"
    ]


def _same_relations(gold: list[Tree], answer: list[Tree]) -> bool:
    remaining = list(answer)
    for expected in gold:
        match = next((given for given in remaining if expected == given or _same_relation(expected, given)), None)
        if match is None:
            return False
        remaining.remove(match)
    return bool(gold) and not remaining


def _same_relation(gold: Tree, answer: Tree) -> bool:
    """Whether the differences of both sides are the same but for a factor; a positive one in inequalities.

    math-verify solves both instead, which has no bound worth the name.
    """
    if gold[1] != answer[1] or not (has_symbol(gold) and has_symbol(answer)):
        return False
    expected, given = (to_sympy(tree[2]) - to_sympy(tree[3]) for tree in (gold, answer))
    point = next(_points(expected, given))
    first, second = expected.xreplace(point), given.xreplace(point)
    if first.is_zero is not False or second.is_zero is not False:
        return False
    if gold[1] in ("<", "<=") and first.is_positive != second.is_positive:
        return False
    return _same_expression(expected * second, given * first)


def _same_expression(gold: Basic, answer: Basic) -> bool:
    """Refute by a few points, which costs milliseconds; only what they cannot tell apart goes to math-verify."""
    if gold == answer:
        return True
    if not _agree_at_points(gold, answer):
        return False
    from math_verify import verify

    return bool(verify(gold, answer, timeout_seconds=None))


def _same_constant(gold: Tree, answer: Tree, tolerance: Tolerance) -> bool:
    left, right = to_sympy(gold), to_sympy(answer)
    if left == right:
        return True
    first, second = _value(left), _value(right)
    if first is None or second is None:
        return False
    import mpmath

    with mpmath.workdps(_DIGITS):
        bound = max(tolerance.size * tolerance.measure(first), _SLACK * abs(first))
        return bool(abs(first - second) <= bound)


def _agree_at_points(gold: Basic, answer: Basic) -> bool:
    """False where two expressions clearly differ at one of the points, or have no value at any."""
    import mpmath

    num_compared = 0
    for point in _points(gold, answer):
        first, second = _value(gold.xreplace(point)), _value(answer.xreplace(point))
        if first is None or second is None:
            continue
        num_compared += 1
        with mpmath.workdps(_DIGITS):
            if abs(first - second) > _SLACK * max(abs(first), abs(second)):
                return False
    return num_compared > 0


def _points(*expressions: Basic) -> Iterator[dict[Basic, Basic]]:
    """Values of all variables, positive and below 8."""
    from sympy import Rational

    symbols = sorted(set().union(*(expression.free_symbols for expression in expressions)), key=str)
    for start, ratio in _POINTS:
        value, factor = Rational(*start), Rational(*ratio)
        values = {}
        for symbol in symbols:
            values[symbol] = value
            value = value * factor if value < 5 else value / 7
        yield values


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
