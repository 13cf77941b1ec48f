r"""What stands around a number without changing it: units, currency, degrees, per cent, the base of its digits."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction

from ada_lightning.rewards.latex.grammar import MAX_DIGITS
from ada_lightning.rewards.latex.unit import CURRENCIES, SCALES, is_bare_unit, is_counted, unit_name

_UNIT_PART = re.compile(r"\\text\s*\{(?P<unit>[^{}]*)\}\s*(?P<power>\^\s*(?:[0-9]|\{\s*-?[0-9]\s*\}))?\s*")
_JOINTS = {"/": "/", r"\cdot": " "}
"""What may stand between two parts of a unit, and how :func:`~ada_lightning.rewards.latex.unit.unit_name` has it."""
_MAX_UNIT_PARTS = 6
_ENDS_VALUE = re.compile(r"(?:[0-9}\])]|\\pi)$")
_BARE_VALUE = r"^(?P<value>[-+0-9.,/ ]*(?:[0-9]|\\frac\{[0-9]+\}\{[0-9]+\}))"
_BARE_UNIT = re.compile(
    _BARE_VALUE + r"\s*(?P<unit>[A-Za-z]+(?:\s*/\s*[A-Za-z]+|\s+[A-Za-z]+)*(?:\s*\^\s*(?:[0-9]|\{\s*[0-9]\s*\}))?)$"
)
_COUNTED = re.compile(_BARE_VALUE + r"\s+(?P<unit>[A-Za-z]{3,}(?:[\s-]+[A-Za-z]{2,})*)$")
_MONEY = re.compile(rf"(-?)\s*([{''.join(CURRENCIES)}])\s*(-?[0-9].*)", re.DOTALL)
_MONEY_AFTER = re.compile(rf"(.*[0-9])\s*([{''.join(CURRENCIES)}])", re.DOTALL)
_BASE = re.compile(r"^(?P<value>[0-9]+)_(?:\{\s*(?P<long>[0-9]{1,2})\s*\}|(?P<short>[0-9]))$")
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)\s*(?:"
    r"(?P<decimal>(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE](?P<exponent>[-+]?[0-9]{1,3}))?"
    r"|(?:(?P<whole>[0-9]+)\s*)??\\frac\s*\{\s*(?P<top>-?[0-9]+)\s*\}\s*\{\s*(?P<bottom>[0-9]+)\s*\}"
    r"|(?:(?P<plain_whole>[0-9]+)\s+)?(?P<plain_top>[0-9]+)\s*/\s*(?P<plain_bottom>[0-9]+)"
    r")"
)

_RECURRING = re.compile(
    r"(?P<sign>[-+]?)\s*(?P<whole>[0-9]*)\.(?P<tenths>[0-9]*)\s*"
    r"(?:\\(?:overline|bar|dot)\s*\{?\s*(?P<period>[0-9]+)\s*\}?|\((?P<bracketed>[0-9]+)\))"
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value and what was taken off it."""

    value: str
    """Tidy LaTeX without unit."""
    unit: str = ""
    """One name for each unit, singular; empty where there is none."""
    is_percent: bool = False


def read_quantity(text: str, *, any_unit: bool = False) -> Quantity:
    r"""Take units, currency, degrees, per cent and a base off a value.

    Args:
        text: tidy LaTeX.
        any_unit: take off words that are not known as units or countable things, too: of a gold answer, whose number
            is not in doubt. After any other number such words make another answer (``18 squared``).

    Example:
        >>> read_quantity(r"5 \text{ cm}"), read_quantity("50%")
        (Quantity(value='5', unit='centimeter', is_percent=False), Quantity(value='50', unit='', is_percent=True))
    """
    if percent := re.fullmatch(r"(.*[0-9})\]])\s*(?:%|\\text\s*\{\s*(?:%|per ?cent)\s*\}|per ?cent)", text, re.DOTALL):
        return Quantity(percent[1], is_percent=True)
    if degrees := re.fullmatch(
        r"((?!.*\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])).+?)\s*\^\\circ\s*(?:\\text\s*\{\s*)?([CF]?)\s*\}?",
        text,
        re.DOTALL,
    ):
        return Quantity(degrees[1], "degree" + degrees[2])
    if money := _MONEY.fullmatch(text):
        return _money(money[1] + money[3], CURRENCIES[money[2]]) or Quantity(text)
    if money := _MONEY_AFTER.fullmatch(text):
        return Quantity(money[1], CURRENCIES[money[2]])
    if base := _BASE.match(text):
        return Quantity(base["value"], f"base {base['long'] or base['short']}")
    return _in_text(text, any_unit) or (any_unit and _counted(text)) or _scaled(Quantity(text))


def _money(text: str, currency: str) -> Quantity | None:
    """Read what follows a currency sign: a number, with its name once more or ``per`` something."""
    found = _in_text(text, False) or _scaled(Quantity(text))
    if found.unit in ("", currency):
        return replace(found, unit=currency)
    return replace(found, unit=currency + found.unit) if found.unit.startswith("/") else None


def _counted(text: str) -> Quantity | None:
    found = _COUNTED.match(text)
    name = unit_name(found["unit"], any_word=True) if found is not None and is_counted(found["unit"]) else None
    return None if found is None or name is None else Quantity(found["value"].strip(), name)


def _in_text(text: str, any_unit: bool) -> Quantity | None:
    r"""Take off what stands in ``\text`` at the end: one unit, or several with powers, ``/`` and ``\cdot`` between."""
    rest, unit = text, ""
    for _ in range(_MAX_UNIT_PARTS):
        start = rest.rfind(r"\text")
        found = _UNIT_PART.fullmatch(rest, start) if start > 0 else None
        if found is None:
            break
        before = rest[:start].rstrip()
        joint = next((sign for sign in _JOINTS if before.endswith(sign)), "")
        rest = before.removesuffix(joint).rstrip()
        unit = f"{_JOINTS.get(joint, ' ')} {found['unit'].strip()}{found['power'] or ''} {unit}"
    if not unit or not _ENDS_VALUE.search(rest):
        return None
    scale, rest_of_unit = _split_scale(unit)
    if scale:
        return _scaled(Quantity(f"{rest} {scale} {rest_of_unit}".rstrip()))
    name = unit_name(unit.strip(), any_word=any_unit)
    return None if name is None else Quantity(rest, name)


def _scaled(quantity: Quantity) -> Quantity:
    """Read a number before bare words: one of :data:`SCALES`, a unit, or both."""
    found = _BARE_UNIT.match(quantity.value)
    if found is None:
        return quantity
    scale, unit = _split_scale(found["unit"])
    number = read_number(found["value"].strip()) if scale else None
    if number is not None and not is_quotient(found["value"], number[0]):
        name = unit_name(unit)
        return quantity if name is None else Quantity(_plain(number[0] * SCALES[scale]), name)
    if is_bare_unit(found["unit"]):
        return Quantity(found["value"].strip(), unit_name(found["unit"]) or "")
    return quantity


def _split_scale(unit: str) -> tuple[str, str]:
    first, _, rest = unit.strip().partition(" ")
    return (first.lower(), rest.strip()) if first.lower() in SCALES else ("", unit)


def _plain(number: Fraction) -> str:
    return str(number) if number.denominator == 1 else rf"\frac{{{number.numerator}}}{{{number.denominator}}}"


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


def is_quotient(text: str, number: Fraction) -> bool:
    r"""Whether an integer is written as a ratio: ``84/2`` is a division that nobody has carried out, 1/2 a number."""
    return number.denominator == 1 and ("/" in text or r"\frac" in text)


def _recurring(found: re.Match[str]) -> Fraction:
    """``0.1`` and the period ``6`` make 1/6."""
    tenths, period = found["tenths"], found["period"] or found["bracketed"]
    value = int((found["whole"] or "0") + tenths) + Fraction(int(period), 10 ** len(period) - 1)
    return value / 10 ** len(tenths) * (-1 if found["sign"] == "-" else 1)
