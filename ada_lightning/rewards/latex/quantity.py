r"""What stands around a number without changing it: units, currency, degrees, per cent, the base of its digits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from ada_lightning.rewards.latex.tree import MAX_DIGITS

_NAMES = {
    "cm": "centimeter",
    "mm": "millimeter",
    "km": "kilometer",
    "m": "meter",
    "kg": "kilogram",
    "g": "gram",
    "mg": "milligram",
    "lb": "pound",
    "s": "second",
    "sec": "second",
    "ms": "millisecond",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "ft": "foot",
    "feet": "foot",
    "in": "inch",
    "inche": "inch",
    "yd": "yard",
    "mi": "mile",
    "mph": "mile/hour",
    "l": "liter",
    "litre": "liter",
    "metre": "meter",
    "ml": "milliliter",
    "deg": "degree",
    "usd": "dollar",
    "buck": "dollar",
    "¢": "cent",
}
# fmt: off
_WORD_UNITS = frozenset(
    (
        "cm", "mm", "km", "kg", "mg", "lb", "ft", "yd", "mph", "ml", "deg", "usd", "meter", "metre",
        "centimeter", "millimeter", "kilometer", "kilogram", "gram", "pound", "second", "minute", "hour", "day",
        "week", "month", "year", "foot", "feet", "inch", "inches", "yard", "mile", "liter", "litre",
        "milliliter", "degree", "dollar", "cent", "euro", "unit", "people", "person", "student", "point",
        "coin", "apple", "way", "time", "square",
    )
)
# fmt: on
"""Units read where they stand bare after a number; short ones such as m could be variables and need ``\\text``."""
_TEXT_UNIT = re.compile(
    r"^(?P<value>.*(?:[0-9}\])]|\\pi))\s*\\text\s*\{(?P<unit>[^{}]*)\}(?P<power>\s*\^\s*(?:[0-9]|\{\s*-?[0-9]\s*\}))?$",
    re.DOTALL,
)
_BARE_UNIT = re.compile(
    r"^(?P<value>[-+0-9.,/ ]*[0-9])\s*(?P<unit>[A-Za-z]+)(?P<power>\s*\^\s*(?:[0-9]|\{\s*[0-9]\s*\}))?$"
)
_BASE = re.compile(r"^(?P<value>[0-9]+)_(?:\{\s*(?P<long>[0-9]{1,2})\s*\}|(?P<short>[0-9]))$")
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)\s*(?:"
    r"(?P<decimal>(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE](?P<exponent>[-+]?[0-9]{1,3}))?"
    r"|(?:(?P<whole>[0-9]+)\s*)??\\frac\s*\{\s*(?P<top>-?[0-9]+)\s*\}\s*\{\s*(?P<bottom>[0-9]+)\s*\}"
    r"|(?:(?P<plain_whole>[0-9]+)\s+)?(?P<plain_top>[0-9]+)\s*/\s*(?P<plain_bottom>[0-9]+)"
    r")"
)

_RECURRING = re.compile(
    r"(?P<sign>[-+]?)\s*(?P<whole>[0-9]*)\.(?P<tenths>[0-9]*)\\overline\s*\{\s*(?P<period>[0-9]+)\s*\}"
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value and what was taken off it."""

    value: str
    """Tidy LaTeX without unit."""
    unit: str = ""
    """One name for each unit, singular; empty where there is none."""
    is_percent: bool = False


def read_quantity(text: str) -> Quantity:
    r"""Take units, currency, degrees, per cent and a base off a value.

    Args:
        text: tidy LaTeX.

    Example:
        >>> read_quantity(r"5 \text{ cm}"), read_quantity("50%")
        (Quantity(value='5', unit='centimeter', is_percent=False), Quantity(value='50', unit='', is_percent=True))
    """
    if percent := re.fullmatch(r"(.*[0-9})\]])\s*(?:%|\\text\s*\{\s*(?:%|per ?cent)\s*\}|percent)", text, re.DOTALL):
        return Quantity(percent[1], is_percent=True)
    if degrees := re.fullmatch(
        r"((?!.*\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])).+?)\s*\^\\circ\s*(?:\\text\s*\{\s*)?([CF]?)\s*\}?",
        text,
        re.DOTALL,
    ):
        return Quantity(degrees[1], "degree" + degrees[2])
    if money := re.fullmatch(r"(-?)\s*\$\s*(-?[0-9].*)", text, re.DOTALL):
        return Quantity(money[1] + money[2], "dollar")
    if base := _BASE.match(text):
        return Quantity(base["value"], f"base {base['long'] or base['short']}")
    for pattern in (_TEXT_UNIT, _BARE_UNIT):
        found = pattern.match(text)
        if found is not None and (pattern is _TEXT_UNIT or found["unit"].lower() in _WORD_UNITS | _plurals()):
            return Quantity(found["value"].strip(), _unit_name(found["unit"], found["power"] or ""))
    return Quantity(text)


def read_number(text: str) -> tuple[Fraction, bool] | None:
    r"""Read a decimal, an integer ratio or a mixed number exactly.

    Returns:
        the number, and whether it was written with a decimal point or exponent and so may be rounded; None for
        anything else.

    Example:
        >>> read_number(r"-2\frac{1}{2}"), read_number("1,000.5"), read_number("x")
        ((Fraction(-5, 2), False), (Fraction(2001, 2), True), None)
    """
    if len(text) > MAX_DIGITS:
        return None
    if recurring := _RECURRING.fullmatch(text.strip()):
        return _recurring(recurring), False
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    is_rounded = False
    if found["decimal"] is not None:
        value = Fraction(found["decimal"].replace(",", "").rstrip(".")) * Fraction(10) ** int(found["exponent"] or 0)
        is_rounded = "." in found["decimal"]
    else:
        whole = int(found["whole"] or found["plain_whole"] or 0)
        top, bottom = int(found["top"] or found["plain_top"]), int(found["bottom"] or found["plain_bottom"])
        if bottom == 0 or (whole and not 0 < top < bottom):
            return None
        value = whole + Fraction(top, bottom)
    return (-value if found["sign"] == "-" else value), is_rounded


def _recurring(found: re.Match[str]) -> Fraction:
    """``0.1`` and the period ``6`` make 1/6."""
    tenths, period = found["tenths"], found["period"]
    value = int((found["whole"] or "0") + tenths) + Fraction(int(period), 10 ** len(period) - 1)
    return value / 10 ** len(tenths) * (-1 if found["sign"] == "-" else 1)


def _plurals() -> frozenset[str]:
    return frozenset(name + "s" for name in _WORD_UNITS)


def _unit_name(text: str, power: str) -> str:
    words = re.sub(r"[^a-z/^0-9 ]", " ", text.lower()).split()
    joined = " ".join(_NAMES.get(word, _NAMES.get(_singular(word), _singular(word))) for word in words)
    exponent = re.sub(r"[^-0-9]", "", power)
    joined = joined.replace(" per ", "/").removeprefix("square ") if exponent else joined.replace(" per ", "/")
    if joined.startswith("square ") and not exponent:
        joined, exponent = joined.removeprefix("square "), "2"
    if joined.startswith("cubic ") and not exponent:
        joined, exponent = joined.removeprefix("cubic "), "3"
    parts = (_NAMES.get(part, _NAMES.get(_singular(part), _singular(part))) for part in joined.split("/"))
    return "/".join(parts) + (f"^{exponent}" if exponent and exponent != "1" else "")


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
