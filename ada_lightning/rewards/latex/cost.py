"""How large the numbers become that an expression asks for, found without computing them."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from ada_lightning.rewards.latex.tree import MAX_NODES, Tree, walk

MAX_BITS = 12_000
"""Largest intermediate value, in bits of numerator and denominator: 3,600 decimal digits, which Python still prints."""
MAX_DEGREE = 64
"""Largest power of an expression with variables."""
_MAX_FACTORIAL = 1500
_SMALL_BITS = 64
_MAX_ROOT_BITS = 512
_UNKNOWN_BITS = 4  # of a variable, at the points where expressions are compared, or an irrational constant
_TOO_MANY = math.inf
_MAX_FLOAT_EXPONENT = 32.0
_MAX_PRECISION = 4096.0  # bits before the point: sin(10^1000) needs them all
_NEED_ALL_DIGITS = frozenset(("sin", "cos", "tan", "cot", "sec", "csc", "floor", "ceiling"))
_E: Tree = ("constant", "e")


def is_affordable(tree: Tree) -> bool:
    r"""Tell whether evaluating a tree is cheap: no number in it passes 12,000 bits, no polynomial degree 64.

    ``9^{9^{9^9}}``, ``10^{10^{10}}``, ``(5!)!!`` and ``\\binom{10^9}{10^8}`` are not.

    Example:
        >>> from ada_lightning.rewards.latex.grammar import read
        >>> is_affordable(read("2^{100}")), is_affordable(read("9^{9^{9}}"))
        (True, False)
    """
    return sum(1 for _ in walk(tree)) <= MAX_NODES and bits(tree) <= MAX_BITS


def bits(tree: Tree) -> float:
    """Upper bound of log2 of a tree's absolute value and of its denominator; infinite where beyond all limits."""
    kind = tree[0]
    if kind == "number":
        return max(tree[1].numerator.bit_length(), tree[1].denominator.bit_length(), 1)
    if kind in ("symbol", "constant"):
        return _UNKNOWN_BITS
    if kind == "relation":
        return bits(tree[2]) + bits(tree[3])
    parts = [bits(part) for part in tree[1:]]
    if max(parts) > MAX_BITS:
        return _TOO_MANY
    if kind == "power":
        return _power_bits(tree, *parts)
    if kind in ("exp", "sinh", "cosh"):
        return _power_bits(("power", _E, tree[1]), _UNKNOWN_BITS, parts[0])
    if kind in _NEED_ALL_DIGITS and magnitude(tree[1]) > _MAX_PRECISION:
        return _TOO_MANY
    if kind == "factorial":
        return _factorial_bits(tree[1], parts[0])
    if kind == "binomial":
        return max(_factorial_bits(part, size) for part, size in zip(tree[1:], parts, strict=True))
    return sum(parts) + len(parts)


def rational(tree: Tree) -> Fraction | None:  # noqa: C901 - one branch for each operator
    r"""Evaluate an affordable tree exactly, where it has no variable, no root and no transcendental function.

    Example:
        >>> from ada_lightning.rewards.latex.grammar import read
        >>> rational(read(r"2\cdot3^{-2}+4!")), rational(read(r"\pi"))
        (Fraction(218, 9), None)
    """
    kind = tree[0]
    if kind == "number":
        value: Fraction = tree[1]
        return value
    if kind in ("symbol", "constant", "relation", "and"):
        return None
    parts: list[Fraction] = []
    for part in tree[1:]:
        if (found := rational(part)) is None:
            return None
        parts.append(found)
    first, second = parts[0], parts[-1]
    if kind == "add":
        return sum(parts, Fraction(0))
    if kind == "multiply":
        return math.prod(parts, start=Fraction(1))
    if kind == "divide":
        return first / second if second else None
    if kind == "power" and second.denominator == 1 and (first or second > 0):
        return first ** int(second)
    if kind == "factorial" and first.denominator == 1 and first >= 0:
        return Fraction(math.factorial(int(first)))
    if kind == "binomial" and all(part.denominator == 1 and part >= 0 for part in parts):
        return Fraction(math.comb(int(first), int(second)))
    simple: dict[str, Callable[[Fraction], Fraction | int]] = {"abs": abs, "floor": math.floor, "ceiling": math.ceil}
    return Fraction(simple[kind](first)) if kind in simple else None


def has_symbol(tree: Tree) -> bool:
    """Whether a variable occurs in a tree."""
    return any(part[0] == "symbol" for part in walk(tree))


def has_decimal(tree: Tree) -> bool:
    """Whether a number with a decimal point occurs in a tree: such a number may be rounded."""
    return any(part[0] == "number" and part[2] for part in walk(tree))


def _power_bits(tree: Tree, base_bits: float, exponent_bits: float) -> float:
    if has_symbol(tree[2]):  # computed in floating point, at a few points
        return base_bits + exponent_bits if magnitude(tree[2]) < _MAX_FLOAT_EXPONENT else _TOO_MANY
    exponent = _largest(tree[2], exponent_bits)
    if has_symbol(tree[1]) and exponent > MAX_DEGREE:
        return _TOO_MANY
    power = rational(tree[2]) if exponent_bits <= _SMALL_BITS else None
    is_root = power is None or power.denominator != 1
    if is_root and base_bits > _MAX_ROOT_BITS:  # its digits would all be computed
        return _TOO_MANY
    return base_bits * max(exponent, 1)


def _factorial_bits(argument: Tree, argument_bits: float) -> float:
    if has_symbol(argument):
        return argument_bits + 64
    largest = _largest(argument, argument_bits)
    return largest * math.log2(largest + 2) if largest <= _MAX_FACTORIAL else _TOO_MANY


def _largest(tree: Tree, size: float) -> float:
    """Upper bound of a part's absolute value: exact where it is a small rational."""
    value = rational(tree) if size <= _SMALL_BITS else None
    if value is not None:
        return float(abs(value))
    exponent = magnitude(tree)
    return 2.0**exponent if exponent < _SMALL_BITS else _TOO_MANY


def magnitude(tree: Tree) -> float:
    """Upper bound of log2 of a tree's absolute value where variables are between 1/8 and 8; at least 0.

    Tighter than :func:`bits`, which counts digits: 1/3 - 1/7 + 1/11 has many digits and is small.
    """
    kind = tree[0]
    if kind == "number":
        return max(math.log2(abs(tree[1].numerator) or 1) - math.log2(tree[1].denominator), 0.0)
    if kind in ("symbol", "constant"):
        return 3.0 if kind == "symbol" else 1.7
    parts = [magnitude(part) for part in tree[1:]]
    if kind == "add":
        return max(parts) + math.log2(len(parts))
    if kind == "divide":
        divisor = tree[2]
        is_small = divisor[0] == "number" and abs(divisor[1]) >= 1
        return parts[0] + (0.0 if is_small else max(parts[1], 4.0))
    if kind == "power":
        return max(parts[0], 1.0) * 2 ** min(parts[1], 2.0 * _SMALL_BITS)
    if kind in ("exp", "sinh", "cosh", "factorial", "binomial"):
        return 2 * 2 ** min(max(parts), 2.0 * _SMALL_BITS)
    return sum(parts)


_REPEAT_S = 0.05  # a library may catch whatever is raised inside it, so the alarm rings again


class CpuBudgetError(BaseException):
    """The budget is spent. No ``Exception``, which libraries catch on their way."""


class CpuBudget:
    """Seconds of this process's own computing time, so that a busy machine changes no verdict.

    Sizes of numbers are bounded before anything is computed (:mod:`~ada_lightning.rewards.latex.cost`), but not how
    many digits a function of a harmless-looking expression needs.

    Takes ``SIGPROF`` of the process. Signals reach its main thread alone; in another only the pool's limit holds.

    Args:
        seconds: for all :meth:`spend` together.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._is_running = False

    @contextmanager
    def spend(self) -> Iterator[None]:
        """Limit what is inside.

        Raises:
            CpuBudgetError: the budget is spent.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        if self.seconds <= 0:
            raise CpuBudgetError
        signal.signal(signal.SIGPROF, self._ring)  # and stays: a late alarm without a handler ends the process
        self._is_running = True
        try:
            signal.setitimer(signal.ITIMER_PROF, self.seconds, _REPEAT_S)
            try:
                yield
            finally:
                self._is_running = False
        except CpuBudgetError:
            self.seconds = 0.0
            raise
        else:
            self.seconds = signal.getitimer(signal.ITIMER_PROF)[0]
        finally:
            self._is_running = False  # once more: the alarm may have rung before the first was reached
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _ring(self, number: int, frame: Any) -> None:
        if self._is_running:
            raise CpuBudgetError
