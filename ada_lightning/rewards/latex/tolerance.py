"""How far from the gold a number may be that was written with a decimal point."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Of a number's distance from the gold: ``size * min(1, |gold|)``, or relative ``size * |gold|``.

    So with 1e-6 a decimal needs six digits after the point, and small numbers need six digits that count; relative to
    the gold large numbers need only six digits that count, too.
    """

    size: float
    is_relative: bool = False
    """Whether a gold above 1 has a wider one."""

    def bound(self, gold: Fraction) -> Fraction:
        """Return the largest distance from an expected number.

        Example:
            >>> Tolerance(0.01).bound(Fraction(50)), Tolerance(0.01, is_relative=True).bound(Fraction(50))
            (Fraction(1, 100), Fraction(1, 2))
        """
        # str(): 1e-6 means one millionth, not the nearest binary number below it
        return Fraction(str(self.size)) * (abs(gold) if self.is_relative else min(Fraction(1), abs(gold)))

    def accepts(self, gold: Fraction, answer: Fraction) -> bool:
        """Whether a number is near enough to the expected one.

        Example:
            >>> Tolerance(1e-6).accepts(Fraction(1, 3), Fraction("0.333333"))
            True
        """
        return abs(gold - answer) <= self.bound(gold)


EXACT = Tolerance(0.0)
