"""Quantities of two units and more, which are one number: 2 hours 30 minutes, 5 feet 6 inches."""

from __future__ import annotations

import re
from fractions import Fraction

from ada_lightning.rewards.latex.unit import unit_name

_FAMILIES = (
    {"week": 604800, "day": 86400, "hour": 3600, "minute": 60, "second": 1},
    {"year": 12, "month": 1},
    {"degree": 3600, "arcminute": 60, "arcsecond": 1},
    {"mile": 63360, "yard": 36, "foot": 12, "inch": 1},
    {"kilometer": 1000000, "meter": 1000, "decimeter": 100, "centimeter": 10, "millimeter": 1},
    {"ton": 1000000, "kilogram": 1000, "gram": 1},
    {"pound": 16, "ounce": 1},
    {"gallon": 8, "quart": 2, "pint": 1},
    {"liter": 1000, "milliliter": 1},
    {"dollar": 100, "cent": 1},
    {"yuan": 10, "jiao": 1},
)
"""What one unit of each family has of its smallest one."""
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\\frac\{[0-9]+\}\{[0-9]+\}|[0-9]+/[0-9]+)\s*([^\W\d_]+)\.?")
_MAX_PARTS = 4


def read_compound(text: str) -> tuple[int, Fraction] | None:
    r"""Read several numbers with units of one family, the larger first.

    Returns:
        which family, and how many of its smallest units; None for anything else.

    Example:
        >>> read_compound(r"2 \text{ hours } 30 \text{ minutes}"), read_compound("12^\\circ 30'")
        ((0, Fraction(9000, 1)), (2, Fraction(45000, 1)))
    """
    plain = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text)
    plain = re.sub(r"\^\s*\\circ", " degree ", plain)
    plain = re.sub(r"\^\s*\{?\s*\\prime\s*\\prime\s*\}?|''|\"", " arcsecond ", plain)
    plain = re.sub(r"\^\s*\{?\s*\\prime\s*\}?|'", " arcminute ", plain)
    plain = re.sub(r"\\AND|,|(?<![A-Za-z])and(?![A-Za-z])", " ", plain).strip()
    parts: list[tuple[Fraction | None, str]] = []
    position = 0
    while position < len(plain) and len(parts) < _MAX_PARTS:
        found = _PART.match(plain, position)
        if found is None:
            return None
        parts.append((_number(found[1]), unit_name(found[2]) or ""))
        position = found.end()
    return _sum(parts) if position == len(plain) and len(parts) > 1 else None


def _sum(parts: list[tuple[Fraction | None, str]]) -> tuple[int, Fraction] | None:
    for index, family in enumerate(_FAMILIES):
        sizes = [family.get(unit, 0) for _, unit in parts]
        if all(sizes) and sizes == sorted(set(sizes), reverse=True):
            total = Fraction(0)
            for (number, _), size in zip(parts, sizes, strict=True):
                if number is None:
                    return None
                total += number * size
            return index, total
    return None


def in_family(family: int, number: Fraction, unit: str) -> Fraction | None:
    """Return how many of the smallest unit of a family a single quantity has; None where its unit is of another.

    Example:
        >>> in_family(0, Fraction(5, 2), "hour")
        Fraction(9000, 1)
    """
    size = _FAMILIES[family].get(unit)
    return None if size is None else number * size


def _number(text: str) -> Fraction | None:
    plain = re.sub(r"\\frac\{([0-9]+)\}\{([0-9]+)\}", r"\1/\2", text)
    top, _, bottom = plain.partition("/")
    return None if bottom and not int(bottom) else Fraction(top) / (int(bottom) if bottom else 1)
