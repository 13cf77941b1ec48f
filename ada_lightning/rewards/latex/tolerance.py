"""How far from the gold a number may be that was written with a decimal point."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Of a number's distance from the gold: ``size * min(1, |gold|)``, or relative ``size * |gold|``.

    So with 1e-6 a decimal needs six digits after the point, and small numbers need six digits that count; relative to
    the gold large numbers need only six digits that count, too.
    """

    size: float
    is_relative: bool = False
    """Whether a gold above 1 has a wider one."""

    def measure(self, gold: Any) -> Any:
        """Return what ``size`` is a part of, for an expected number of any kind that can be compared.

        Example:
            >>> Tolerance(0.01).measure(Fraction(50)), Tolerance(0.01, is_relative=True).measure(Fraction(50))
            (1, Fraction(50, 1))
        """
        return abs(gold) if self.is_relative else min(1, abs(gold))

    def accepts(self, gold: Fraction, answer: Fraction) -> bool:
        """Whether a number is near enough to the expected one.

        Example:
            >>> Tolerance(1e-6).accepts(Fraction(1, 3), Fraction("0.333333"))
            True
        """
        # str(): 1e-6 means one millionth, not the nearest binary number below it
        return abs(gold - answer) <= Fraction(str(self.size)) * self.measure(gold)


EXACT = Tolerance(0.0)
