"""The value of a tree at a point, with as many digits as asked for: by mpmath's functions, never from text."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ada_lightning.rewards.latex.cost import rational
from ada_lightning.rewards.latex.tree import Tree

MAX_MAGNITUDE = 40_000
"""Largest binary exponent of a value."""
_MAX_GAMMA = 3000
_MAX_GAMMA_DIGITS = 400
_SAME_NAME = frozenset(("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"))


class UndefinedError(ArithmeticError):
    """There is no (real) value: 1/0, the logarithm of a negative number."""


class TooLargeError(ArithmeticError):
    """The value would be costly to compute."""


class Evaluator:
    """Evaluates trees at one point; mpmath's precision is the caller's.

    Args:
        point: values of the variables.
        is_complex: roots and logarithms of negative numbers have their principal values; else they have none. An odd
            root of a negative number is real in either case, as people write it.
    """

    def __init__(self, point: Mapping[str, Fraction], *, is_complex: bool) -> None:
        import mpmath

        self.mp: Any = mpmath
        self.point = {name: self._ratio(value) for name, value in point.items()}
        self.is_complex = is_complex
        self.scale: Any = mpmath.mpf(1)
        """Largest absolute value met on the way, which bounds what rounding took."""

    def __call__(self, tree: Tree) -> Any:
        """Return a value.

        Raises:
            UndefinedError: there is none.
            TooLargeError: it would be costly.
        """
        try:
            value = self._value(tree)
        except (ZeroDivisionError, ValueError) as error:
            raise UndefinedError from error
        except (OverflowError, self.mp.mp.NoConvergence) as error:
            raise TooLargeError from error
        if not self.mp.isfinite(value):
            raise UndefinedError
        if value and self.mp.mag(value) > MAX_MAGNITUDE:
            raise TooLargeError
        if isinstance(value, self.mp.mpc):
            if value.imag == 0:
                value = value.real
            elif not self.is_complex:
                raise UndefinedError
        self.scale = max(self.scale, abs(value))
        return value

    def _ratio(self, number: Fraction) -> Any:
        return self.mp.mpf(number.numerator) / number.denominator

    def _value(self, tree: Tree) -> Any:
        kind = tree[0]
        if kind == "number":
            return self._ratio(tree[1])
        if kind == "symbol":
            return self.point[tree[1]]
        if kind == "constant":
            return self._constant(tree[1])
        if kind == "power":
            return self._power(self(tree[1]), tree[2])
        return self._function(kind, [self(part) for part in tree[1:]])

    def _constant(self, name: str) -> Any:
        if name == "infty":
            raise UndefinedError
        if name == "i":
            return self.mp.mpc(0, 1)
        return +self.mp.pi if name == "pi" else +self.mp.e

    def _function(self, kind: str, parts: list[Any]) -> Any:  # noqa: C901 - one branch for each function
        first, last = parts[0], parts[-1]
        if kind == "add":
            return sum(parts[1:], first)
        if kind == "multiply":
            product = first
            for part in parts[1:]:
                product = product * part
            return product
        if kind == "divide":
            return first / last
        if kind == "abs":
            return abs(first)
        if kind in ("floor", "ceiling"):
            return self._rounded(kind, first)
        if kind == "factorial":
            return self._factorial(first)
        if kind == "binomial":
            return self._binomial(first, last)
        if kind in ("ln", "log"):
            base = 10 if kind == "log" and len(parts) == 1 else last if kind == "log" else self.mp.e
            if first == 0 or base in (0, 1):
                raise UndefinedError
            return self.mp.log(first) / (1 if kind == "ln" else self.mp.log(base))
        if kind in ("exp", "sinh", "cosh"):
            self._limit(first)
        if kind.startswith("arc"):
            return getattr(self.mp, "a" + kind[3:])(first)
        return getattr(self.mp, kind)(first)

    def _rounded(self, kind: str, value: Any) -> Any:
        if isinstance(value, self.mp.mpc):
            raise UndefinedError
        nearest = self.mp.nint(value)
        if nearest != value and abs(value - nearest) < self.mp.mpf(10) ** (8 - self.mp.mp.dps) * max(self.scale, 1):
            return nearest  # an integer up to rounding
        return self.mp.floor(value) if kind == "floor" else self.mp.ceil(value)

    def _factorial(self, value: Any) -> Any:
        if abs(value) > _MAX_GAMMA or (self.mp.mp.dps > _MAX_GAMMA_DIGITS and value != self.mp.nint(value.real)):
            raise TooLargeError
        return self.mp.factorial(value)

    def _binomial(self, top: Any, bottom: Any) -> Any:
        if all(self.mp.isint(number) and number.real >= 0 for number in (top, bottom)) and top.real < bottom.real:
            return self.mp.mpf(0)  # no way to take two of one
        return self._factorial(top) / (self._factorial(bottom) * self._factorial(top - bottom))

    def _limit(self, exponent: Any) -> None:
        if abs(exponent) > MAX_MAGNITUDE:
            raise TooLargeError

    def _power(self, base: Any, exponent: Tree) -> Any:
        power = rational(exponent)
        value = self._ratio(power) if power is not None else self(exponent)
        if base == 0:
            if value.real > 0:
                return self.mp.mpf(0)
            raise UndefinedError
        is_negative = not isinstance(base, self.mp.mpc) and base < 0
        self._limit(value * max(abs(self.mp.mag(base)), 1))
        if power is not None and power.denominator == 1:
            return base ** int(power)
        if power is not None and power.denominator % 2 and is_negative:
            return (-1) ** power.numerator * (-base) ** value
        return base**value
