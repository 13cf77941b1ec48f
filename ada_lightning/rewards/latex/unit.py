r"""Names of units: one name for each, however it is written; and words for large numbers, which are no units."""

from __future__ import annotations

import re

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
_BARE = frozenset(
    (
        "cm", "mm", "km", "kg", "mg", "lb", "ft", "yd", "mph", "ml", "deg", "usd", "meter", "metre",
        "centimeter", "millimeter", "kilometer", "kilogram", "gram", "pound", "second", "minute", "hour", "day",
        "week", "month", "year", "foot", "feet", "inch", "inche", "yard", "mile", "liter", "litre",
        "milliliter", "degree", "dollar", "cent", "euro", "unit", "people", "person", "student", "point",
        "coin", "apple", "way", "time", "square", "cubic",
    )
)
"""Units read where they stand bare after a number, singular; short ones such as m could be variables."""
# fmt: on
CURRENCIES = {"$": "dollar", "€": "euro", "£": "pound sterling", "¥": "yen", "₹": "rupee"}
"""Name of the unit that a sign stands for; that of the pound is no weight."""
SCALES = {"dozen": 12, "hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
"""Words that multiply the number before them."""
_NO_COUNT = frozenset((*SCALES, "and", "or", "to", "plus", "minus", "times", "over", "half", "halves", "quarter"))
_POWER_BEFORE = {"square": "2", "sq": "2", "cubic": "3"}
_POWER_AFTER = {"squared": "2", "cubed": "3"}
_ATOM = re.compile(r"([a-z¢]+)(?:\^?(-?[0-9]))?")


def unit_name(text: str) -> str:
    r"""Return one name for a unit: singular, powers as ``^2``, ``/`` for per.

    Args:
        text: words and powers, such as ``square meters``, ``km / h`` or ``m/s^{2}``.

    Returns:
        The name; empty where the text says more than a unit: another number, ``and``, ``or``, a comma.

    Example:
        >>> unit_name("m/s^{2}"), unit_name("Square metres"), unit_name("or 6")
        ('meter/second^2', 'meter^2', '')
    """
    text = re.sub(r"\s*\^\s*", "^", re.sub(r"[{}]", "", text.lower()))
    text = re.sub(r"[()~.\\]", " ", text)
    if "," in text or ";" in text:
        return ""
    sides = [_product(side) for side in re.sub(r"\bper\b", "/", text).split("/")]
    return "/".join(side or "" for side in sides) if None not in sides else ""


def is_bare_unit(text: str) -> bool:
    """Whether words that stand after a number without more are a unit, and no variables."""
    first = re.split(r"[\s/^]", text.lower(), maxsplit=1)[0]
    return {first, _singular(first)} & _BARE != set()


def is_counted(text: str) -> bool:
    """Whether words after a number can be what is counted, as in 18 eggs: of three letters or more, and no numbers."""
    words = text.lower().replace("-", " ").split()
    return bool(words) and len(words[0]) > 2 and not any(word in _NO_COUNT or _is_part(word) for word in words)


def _is_part(word: str) -> bool:
    """Whether it is thirds, quarters and the like: 2 thirds are not 2 of something."""
    return (
        re.fullmatch(r"quarters|(?:thi|fou|fif|six|seven|eigh|nin|ten|hundred|thousand)(?:r?th|rd)s?", word) is not None
    )


def _product(text: str) -> str | None:
    """Factors of one side of a ``per``; None where something is no factor of a unit."""
    factors: list[str] = []
    power = ""
    for word in text.split():
        found = _ATOM.fullmatch(word)
        if found is None or found[1] in ("and", "or"):
            return None
        if found[1] in _POWER_AFTER:
            factors[-1:] = [_with_power(factors[-1], _POWER_AFTER[found[1]])] if factors else []
        elif found[1] in _POWER_BEFORE and word != text.strip():  # alone it is what is counted: 3 square
            power = _POWER_BEFORE[found[1]]
        else:
            name = _NAMES.get(found[1], _NAMES.get(_singular(found[1]), _singular(found[1])))
            factors.append(_with_power(name, found[2] or power))
            power = ""
    return " ".join(factors)


def _with_power(name: str, power: str) -> str:
    return f"{name}^{power}" if power not in ("", "1") else name


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
