"""Equality of two trees: exact where they are rational, by digits elsewhere, at random points for variables.

Why points decide, and no algebra system: two different rational functions agree at a random point with a probability of
at most their degree over the number of points to choose from (Schwartz 1980, Zippel 1979). That is below 10^-15 here
for all points together. Other expressions are analytic on each side of a few curves, and two of them that differ there
agree on a set of measure zero only. Each is computed with more digits than all of its literals have. Two may be equal
on one side and differ on another, as ``ab`` and ``|ab|`` do. So absolute values, roots and the like get many more
points, to have some on each side: 60 points miss an eighth of the range once in 3,000. The points follow from a hash of
both trees, so nobody can write an answer that is right at its own points. An algebra system knows less (it says no to
equal logarithms) and has no bound on its time.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import islice
from typing import Any

from ada_lightning.rewards.latex.cost import CpuBudget, bits, has_decimal, has_symbol, is_affordable, rational
from ada_lightning.rewards.latex.tolerance import EXACT, Tolerance
from ada_lightning.rewards.latex.tree import Tree, negative, substitute, symbols, walk
from ada_lightning.rewards.latex.values import Evaluator, TooLargeError, UndefinedError

_EVEN = 2


def positives(tree: Tree) -> frozenset[str]:
    r"""Variables under an even root, a logarithm or a power that is no integer, and outside of absolute values.

    What holds for positive numbers only is meant for them where both sides have such a part: ``\sqrt{ab}`` is
    ``\sqrt a\sqrt b``. It is not where one side takes care of signs: ``\sqrt{x^2}`` is no ``x``, and ``\ln|x|`` no
    ``\ln x``.

    Example:
        >>> from ada_lightning.rewards.latex.grammar import read
        >>> sorted(positives(read(r"\sqrt{ab}+c"))), sorted(positives(read(r"\ln|x|")))
        (['a', 'b'], [])
    """
    kind, parts = tree[0], [part for part in tree[1:] if isinstance(part, tuple)]
    found = frozenset[str]().union(*(positives(part) for part in parts))
    if kind in ("ln", "log") or (kind == "power" and _is_even_root(tree[2])):
        found |= _outside_of_bars(parts[0])
    return found - _inside_of_bars(tree)


def _is_even_root(exponent: Tree) -> bool:
    power = rational(exponent)
    return symbols(exponent) != frozenset() if power is None else power.denominator % _EVEN == 0


def _outside_of_bars(tree: Tree) -> frozenset[str]:
    if tree[0] == "symbol":
        return frozenset((tree[1],))
    if tree[0] == "abs":
        return frozenset()
    return frozenset[str]().union(*(_outside_of_bars(part) for part in tree[1:] if isinstance(part, tuple)))


def _inside_of_bars(tree: Tree) -> frozenset[str]:
    return frozenset[str]().union(*(symbols(part) for part in walk(tree) if part[0] == "abs"))


def integers(tree: Tree) -> frozenset[str]:
    r"""Variables of factorials and binomials, and of powers of negative numbers such as ``(-1)^n``.

    Example:
        >>> from ada_lightning.rewards.latex.grammar import read
        >>> sorted(integers(read("n!x+(-1)^k")))
        ['k', 'n']
    """
    found = frozenset[str]()
    for part in walk(tree):
        if part[0] in ("factorial", "binomial"):
            found |= symbols(part)
        elif part[0] == "power":
            base = rational(part[1])
            found |= symbols(part[2]) if base is not None and base < 0 else frozenset()
    return found


Point = Mapping[str, Fraction]
_DIGITS = 50
_DIGITS_OF_A_BIT = 0.31
_SPARE_DIGITS = 12
"""For what is lost in rounding."""
_NUM_POINTS = 5
_NUM_POINTS_OF_PIECES = 60
_SPARE_POINTS = 19
"""For those at which nothing has a value."""
_MAX_MISSING = 3
"""Points at which one side alone has a value, for each at which both are equal: (n-k)! and (k-n)! are where n = k."""
_MANY_DIGITS = 400
_GRAIN = 2**24
_RANGES = ((0, 1), (1, 8), (0, 8), (2, 60))
_RANGES_OF_PIECES = (*_RANGES, (1, 2), (2, 3), (3, 5), (5, 9))
_EXACT_KINDS = frozenset(("number", "symbol", "add", "multiply", "divide", "power", "abs"))
_IN_PIECES = frozenset(("abs", "floor", "ceiling", "binomial", "factorial", "arcsin", "arccos", "arctan"))


def are_equal(gold: Tree, answer: Tree, tolerance: Tolerance, budget: CpuBudget) -> bool:
    """Tell whether two expressions or relations mean the same.

    Equal trees are equal. Where one of them is too costly to evaluate (:func:`~ada_lightning.rewards.latex.cost.
    is_affordable`), nothing else is: see :class:`~ada_lightning.rewards.math.MathReward`. Rational values are compared
    exactly, other constants by 50 digits and more, both with the tolerance where a decimal number occurs. What has
    variables is compared at random points, exactly where both are rational functions. The budget is for everything but
    rational numbers.

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
    with budget.spend():
        return _same_by_values(gold, answer, tolerance if is_rounded else EXACT)


def _same_by_values(gold: Tree, answer: Tree, tolerance: Tolerance) -> bool:
    if {"relation", "and"} & {gold[0], answer[0]}:
        return _same_relations(_relations(gold), _relations(answer))
    if has_symbol(gold) or has_symbol(answer):
        return (
            all(first == second for first, second in _at_points(gold, answer))
            if _is_exact(gold, answer)
            else _agree(gold, answer)
        )
    return _same_constant(gold, answer, tolerance)


def _is_exact(*trees: Tree) -> bool:
    """Whether they are rational functions, of which fractions have exact values."""
    return all(
        part[0] in _EXACT_KINDS and (part[0] != "power" or _is_integer(rational(part[2]))) for tree in trees
        for part in walk(tree)
    )  # fmt: skip


def _is_integer(number: Fraction | None) -> bool:
    return number is not None and number.denominator == 1


def _at_points(gold: Tree, answer: Tree) -> Iterator[tuple[Fraction | None, Fraction | None]]:
    """Exact values of both at random points."""
    for point in islice(_points(gold, answer), _num_points(gold, answer)):
        yield tuple(rational(substitute(tree, point)) for tree in (gold, answer))  # type: ignore[misc]


def _agree(gold: Tree, answer: Tree) -> bool:
    """Whether both have the same values, and are defined alike, at random points."""
    digits, is_complex = _digits(gold, answer), _has_i(gold) or _has_i(answer)
    presumed = (positives(gold) & positives(answer)) | integers(gold) | integers(answer)
    num_equal = num_missing = 0
    enough = _num_points(gold, answer) if digits < _MANY_DIGITS else 2
    for point in _points(gold, answer):
        try:
            pair = _pair(gold, answer, point, digits, is_complex=is_complex)
        except TooLargeError:
            continue
        except UndefinedError:
            num_missing += 1
            if presumed:  # ln x + ln y has no value where ln(xy) may have one, nor (n-2)! where n(n-1)/2 has
                continue
            return False
        if pair is None:
            continue
        if not _is_near(*pair, digits):
            return False
        num_equal += 1
        if num_equal == enough:
            break
    return num_equal >= 2 and num_missing <= _MAX_MISSING * num_equal


def _pair(gold: Tree, answer: Tree, point: Point, digits: int, *, is_complex: bool) -> tuple[Any, Any, Any] | None:
    """Both values and the largest number on the way; None where neither is defined.

    Raises:
        UndefinedError: one of them has no value.
    """
    import mpmath

    found: list[Any] = []
    with mpmath.workdps(digits):
        evaluate = Evaluator(point, is_complex=is_complex)
        for tree in (gold, answer):
            try:
                found.append(evaluate(tree))
            except UndefinedError:
                found.append(None)
        if found == [None, None]:
            return None
        if None in found:
            raise UndefinedError
        return found[0], found[1], evaluate.scale


def _is_near(first: Any, second: Any, scale: Any, digits: int) -> bool:
    import mpmath

    with mpmath.workdps(digits):
        return bool(abs(first - second) <= mpmath.mpf(10) ** (_SPARE_DIGITS - digits) * scale)


def _num_points(*trees: Tree) -> int:
    return _NUM_POINTS_OF_PIECES if _is_in_pieces(*trees) else _NUM_POINTS


def _is_in_pieces(*trees: Tree) -> bool:
    """Whether a part can follow one formula here and another there: ``|x-1|``, the root of a square, a binomial."""
    parts = (part for tree in trees for part in walk(tree))
    return any((part[0] in _IN_PIECES or _is_root(part)) and has_symbol(part) for part in parts)


def _is_root(part: Tree) -> bool:
    """Whether it is the root of more than a bare variable, which is taken for positive."""
    exponent = rational(part[2]) if part[0] == "power" and part[1][0] != "symbol" else None
    return exponent is not None and not _is_integer(exponent)


def _digits(*trees: Tree) -> int:
    """More digits than the literals and results of all trees have together."""
    return int(_DIGITS + 2 * _DIGITS_OF_A_BIT * sum(bits(tree) for tree in trees))


def _has_i(tree: Tree) -> bool:
    return any(part == ("constant", "i") for part in walk(tree))


def _points(gold: Tree, answer: Tree) -> Iterator[dict[str, Fraction]]:
    """Random values of all variables, of several sizes; of both signs but where only positive ones make sense."""
    names = sorted(symbols(gold) | symbols(answer))
    whole = integers(gold) | integers(answer)
    positive = (positives(gold) & positives(answer)) | whole
    rng = random.Random(hashlib.sha256(repr((gold, answer)).encode()).digest())
    ranges = _RANGES_OF_PIECES if _is_in_pieces(gold, answer) else _RANGES
    for index in range(_num_points(gold, answer) + _SPARE_POINTS):
        low, high = ranges[index % len(ranges)]
        point = {}
        for name in names:
            value = Fraction(rng.randrange(1, (high - low) * _GRAIN), _GRAIN) + low
            sign = -1 if name not in positive and rng.random() < 0.5 else 1
            point[name] = Fraction(1 + rng.randrange(12)) if name in whole else sign * value
        yield point


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
    """Whether the differences of both sides are the same up to a factor; a positive one in inequalities."""
    import mpmath

    if gold[1] != answer[1] or not (has_symbol(gold) and has_symbol(answer)):
        return False
    expected, given = (("add", tree[2], negative(tree[3])) for tree in (gold, answer))
    digits, is_complex = _digits(expected, given), _has_i(gold) or _has_i(answer)
    pairs = []
    for point in _points(expected, given):
        try:
            pair = _pair(expected, given, point, digits, is_complex=is_complex)
        except (TooLargeError, UndefinedError):
            continue
        pairs += [pair] if pair is not None else []
        if len(pairs) == _num_points(expected, given):
            break
    if len(pairs) < 3:
        return False
    with mpmath.workdps(digits):
        first, second, _ = pairs[0]
        noise = mpmath.mpf(10) ** (_SPARE_DIGITS - digits) * pairs[0][2]
        if abs(first) <= noise or abs(second) <= noise:
            return False
        if gold[1] in ("<", "<=") and (is_complex or (first > 0) != (second > 0)):
            return False
        return all(
            _is_near(left * second, right * first, scale * max(abs(first), abs(second), 1), digits)
            for left, right, scale in pairs[1:]
        )


def _same_constant(gold: Tree, answer: Tree, tolerance: Tolerance) -> bool:
    import mpmath

    digits = _digits(gold, answer)
    try:
        pair = _pair(gold, answer, {}, digits, is_complex=True)
    except (TooLargeError, UndefinedError):
        return False
    if pair is None:
        return False
    first, second, _ = pair
    with mpmath.workdps(digits):
        return _is_near(*pair, digits) or bool(abs(first - second) <= tolerance.size * tolerance.measure(abs(first)))


def decimal_value(tree: Tree) -> Fraction | None:
    """The value of a real constant to forty digits; None for anything else, or where it would be costly."""
    import mpmath

    if tree[0] in ("relation", "and") or has_symbol(tree) or not is_affordable(tree):
        return None
    exact = rational(tree)
    if exact is not None:
        return exact
    with mpmath.workdps(_DIGITS):
        try:
            value = Evaluator({}, is_complex=False)(tree)
        except (TooLargeError, UndefinedError):
            return None
        sign, mantissa, exponent, _ = value._mpf_
    return Fraction(-mantissa if sign else mantissa) * Fraction(2) ** exponent


def linear(tree: Tree) -> tuple[str, Fraction, Fraction] | None:
    """Return variable, slope and start of a linear function of one variable with rational numbers; None for others.

    Example:
        >>> from ada_lightning.rewards.latex.grammar import read
        >>> linear(read("2x-1"))
        ('x', Fraction(2, 1), Fraction(-1, 1))
    """
    names = symbols(tree)
    if (
        len(names) != 1
        or not _is_exact(tree)
        or not is_affordable(tree)
        or any(part[0] == "abs" for part in walk(tree))
    ):
        return None
    (name,) = names
    values = [rational(substitute(tree, {name: Fraction(x)})) for x in (0, 1, 2, 3, 1009)]
    start, end = values[0], values[1]
    if start is None or end is None:
        return None
    slope = end - start
    fits = all(value == start + slope * x for value, x in zip(values, (0, 1, 2, 3, 1009), strict=True))
    return (name, slope, start) if fits and slope else None
