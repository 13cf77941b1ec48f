r"""What stands around a number without changing it: units, currency, degrees, per cent, the base of its digits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from ada_lightning.rewards.latex.foreign import SCALES as CHINESE_SCALES
from ada_lightning.rewards.latex.grammar import MAX_DIGITS
from ada_lightning.rewards.latex.unit import CURRENCIES, SCALES, is_bare_unit, is_counted, unit_name

_MAX_UNIT_PARTS = 12
_PIECE = re.compile(
    r"\\text\s*\{[^{}]*\}|\^\s*(?:-?[0-9]|\{\s*-?[0-9]\s*\})|\\[a-zA-Z]+|[^\W\d_\u00b5]*[^\W\d_]+\.?|[0-9.,]+|\s+|.",
    re.DOTALL,
)
_UNIT_PIECE = re.compile(r"\\text\s*\{[^{}]*\}|\^.*|\\(?:Omega|mu|cdot|times)|[^\W\d_]+\.?|¢|[\s()/-]+", re.DOTALL)
_ENDS_VALUE = re.compile(r"(?:[0-9}\])!]|\\pi|\\infty|[0-9]\.)$")
_IS_CONSTANT = re.compile(
    r"(?:\\(?:frac|sqrt|pi|times|cdot|div|overline|bar|dot)(?![a-zA-Z])|(?<=[0-9])[eE](?=[-+]?[0-9])|[-+0-9.,/:{}()\[\]^!\s])+"
)
_AFTER_PI = re.compile(r"(?:m(?![a-zA-Z])|[^\W\d_]{2,}|\\)")
_UNIT_RATIO = re.compile(
    r"(?<=[0-9}\])\s])\\frac\s*\{\s*(?:\\text\s*\{)?\s*(?P<top>[A-Za-z]+)\s*(?:\})?\s*\}\s*\{\s*(?:\\text\s*\{)?\s*"
    r"(?P<bottom>[A-Za-z]+(?:\^[0-9]|\^\{[0-9]\})?)\s*(?:\})?\s*(?:\^\{?[0-9]\}?)?\s*\}$"
)
_ORDINAL = re.compile(r"([0-9]+)(?:st|nd|rd|th)(?![A-Za-z])\s*(.*)", re.DOTALL)
_MONEY = re.compile(rf"(-?)\s*([{''.join(CURRENCIES)}])\s*(-?[0-9.].*)", re.DOTALL)
_MONEY_AFTER = re.compile(rf"(.*[0-9])\s*([{''.join(CURRENCIES)}])", re.DOTALL)
_BASES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "eleven": 11,
    "twelve": 12, "sixteen": 16,
}  # fmt: skip
_BASE = re.compile(
    r"(?P<sign>-?)\(?(?P<digits>[0-9A-Z]+(?:\.[0-9A-Z]+)?)\)?\s*(?:_\s*(?:\{\s*\(?(?:\\text\s*\{\s*)?(?:base\s*)?(?P<long>[0-9]{1,2}|[a-z]+)"
    r"(?:\s*\})?\)?\s*\}|(?P<short>[0-9]))|\s*(?:\\text\s*\{\s*)?\(?\s*(?:in\s+)?base[\s-]*(?P<said>[0-9]{1,2}|[a-z]+)\s*\)?(?:\s*\})?)"
)
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)\s*(?:"
    r"(?P<decimal>(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE](?P<exponent>[-+]?[0-9]{1,3}))?"
    r"|(?:(?P<whole>[0-9]+)\s*)??\\frac\s*\{\s*(?P<top>-?[0-9]+)\s*\}\s*\{\s*(?P<bottom>[0-9]+)\s*\}"
    r"|(?:(?P<plain_whole>[0-9]+)\s+)?(?P<plain_top>[0-9]+)\s*/\s*(?P<plain_bottom>[0-9]+)"
    r")"
)
_THOUSANDS_INSIDE = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")

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
    if percent := re.fullmatch(
        r"(.*[0-9})\]])\s*(?:\(?\s*%\s*\)?|\\text\s*\{\s*\(?(?:%|per ?cent)\)?\s*\}|\(?per ?cent\)?)", text, re.DOTALL
    ):
        return Quantity(percent[1], is_percent=True)
    if degrees := re.fullmatch(
        r"((?!.*\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])).+?)\s*\^\\circ\s*(?:\\text\s*\{\s*)?([CF]?)\s*\}?",
        text,
        re.DOTALL,
    ):
        return Quantity(degrees[1], {"C": "celsius", "F": "fahrenheit"}.get(degrees[2], "degree"))
    if money := _MONEY.fullmatch(text):
        return _money(money[1] + money[3], CURRENCIES[money[2]]) or Quantity(text)
    if money := _MONEY_AFTER.fullmatch(text):
        return Quantity(money[1], CURRENCIES[money[2]])
    if (base := _BASE.fullmatch(text)) and (number := base["long"] or base["short"] or base["said"]):
        number = str(_BASES.get(number, number))
        return Quantity(base["sign"] + base["digits"], f"base {number}") if number.isdigit() else Quantity(text)
    if (ordinal := _ORDINAL.fullmatch(text)) and (name := unit_name(ordinal[2], any_word=any_unit)) is not None:
        return Quantity(ordinal[1], name)
    text = _UNIT_RATIO.sub(lambda found: rf"\text{{{found['top']}/{found['bottom']}}}", text)
    found = _with_unit(text, any_unit)
    return Quantity(text) if found is None or found.unit.startswith("/") else found


def _money(text: str, currency: str) -> Quantity | None:
    """Read what follows a currency sign: a number, with its name once more or ``per`` something."""
    found = _with_unit(text, False) or Quantity(text)
    if found.unit in ("", currency):
        return replace(found, unit=currency)
    return replace(found, unit=currency + found.unit) if found.unit.startswith("/") else None


def _with_unit(text: str, any_unit: bool) -> Quantity | None:
    """Take off the longest end that is a unit or what is counted, with a word for a large number before it."""
    for value, unit in _ends(text):
        if not _ENDS_VALUE.search(value.rstrip()):
            continue
        scale, rest = _split_scale(unit)
        if scale:
            number = read_number(value.strip())
            name = unit_name(rest)
            if number is None or is_quotient(value, number[0]) or name is None:
                return None
            return Quantity(_plain(number[0] * scale), name)
        is_text = unit.lstrip().startswith(r"\text")
        plain = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", unit)
        is_constant = _IS_CONSTANT.fullmatch(value) is not None
        if is_text or (is_constant and _may_stand_bare(value, unit, plain)):
            name = unit_name(plain, any_word=any_unit and is_text)
            if name is not None:
                return Quantity(value.strip(), name)
        if any_unit and is_constant and (is_counted(plain) or plain.strip().startswith("(")):
            name = unit_name(plain, any_word=True)
            if name is not None:
                return Quantity(value.strip(), name)
    return None


def _ends(text: str) -> Iterator[tuple[str, str]]:
    """Cut a text in two where a unit may begin, the longest unit first."""
    pieces = _PIECE.findall(text)
    starts: list[int] = []
    position = len(text)
    for piece in reversed(pieces):
        if _UNIT_PIECE.fullmatch(piece) is None or len(starts) > _MAX_UNIT_PARTS:
            break
        position -= len(piece)
        if (
            (piece.strip(" /-)^") and not piece.startswith(("^", r"\cdot", r"\times")) and piece.strip() != "(")
            or piece.strip() == "/"
            or piece.strip() == "("
        ):
            starts.append(position)
    for start in reversed(starts):
        yield text[:start], text[start:]


def _may_stand_bare(value: str, unit: str, plain: str) -> bool:
    r"""Whether letters behind a constant are a unit where nothing says so: ``6 m`` and ``12\pi cm``, not ``6m``."""
    is_apart = value[-1:].isspace() or unit[:1].isspace()
    if value.rstrip().endswith(r"\pi") and not _AFTER_PI.match(unit.strip()):
        return False
    if plain.strip().startswith("("):
        return is_apart and len(plain.strip("() ")) > 1
    return is_bare_unit(plain, is_apart=is_apart)


def _split_scale(unit: str) -> tuple[int, str]:
    """Return what a first word multiplies by, 0 where it does not, and the rest."""
    plain = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", unit).strip()
    first, _, rest = plain.partition(" ")
    if first.lower() in SCALES:
        return SCALES[first.lower()], rest.strip()
    scale = next((word for word in sorted(CHINESE_SCALES, key=len, reverse=True) if plain.startswith(word)), "")
    rest = plain.removeprefix(scale)
    if not scale or plain.startswith(("\u5343\u7c73", "\u5343\u514b", "\u5343\u74e6")):  # kilo-
        return 0, unit
    return CHINESE_SCALES[scale], rest


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
    if "/" in text or r"\frac" in text:
        text = _THOUSANDS_INSIDE.sub(lambda found: found[0].replace(",", ""), text)
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
