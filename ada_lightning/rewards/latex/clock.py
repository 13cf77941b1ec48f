"""Times of day: 3 PM is 3:00 p.m. and 15:00."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TIME = re.compile(
    r"(?:at\s+)?(?P<hour>[01]?[0-9]|2[0-4])\s*(?::\s*(?P<minute>[0-5][0-9])(?:\s*:\s*(?P<second>[0-5][0-9]))?)?"
    r"\s*(?P<half>[ap]\.?\s?m\.?|noon|midnight|o'clock(?:\s*[ap]\.?\s?m\.?)?)?",
    re.IGNORECASE,
)
_NOON = 12


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day."""

    seconds: int
    """Since midnight; of the first half of the day where it is not known which."""
    is_known: bool
    """Whether it is told, or clear from the hour, which half of the day it is."""
    is_told: bool
    """Whether words tell it, such as ``am``: then it can be no ratio."""


def read_time(text: str) -> Time | None:
    r"""Read a time, of tidy LaTeX: with a colon, ``am`` or ``pm``, or ``o'clock``.

    Example:
        >>> read_time(r"3:00 \text{ PM}").seconds == read_time("15:00").seconds == 15 * 3600, read_time("7")
        (True, None)
    """
    plain = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text).replace("{:}", ":")
    if (named := re.fullmatch(r"\s*(?:12\s*)?(noon|midnight)\s*", plain, re.IGNORECASE)) is not None:
        return Time(_NOON * 3600 if named[1].lower() == "noon" else 0, is_known=True, is_told=True)
    found = _TIME.fullmatch(plain.strip())
    if found is None or (found["minute"] is None and found["half"] is None):
        return None
    half = re.sub(r"[^a-z]", "", (found["half"] or "").lower()).replace("oclock", "")
    hour = int(found["hour"])
    if half and not 1 <= hour <= _NOON:
        return None if half in ("noon", "midnight") or hour == 0 else Time(_seconds(hour, found), True, True)
    if half:
        hour = hour % _NOON + (_NOON if half in ("pm", "noon") else 0)
    return Time(_seconds(hour, found), is_known=bool(half) or hour > _NOON or hour == 0, is_told=bool(found["half"]))


def _seconds(hour: int, found: re.Match[str]) -> int:
    return hour * 3600 + int(found["minute"] or 0) * 60 + int(found["second"] or 0)


def same_time(gold: Time, answer: Time) -> bool:
    """Whether two times agree; which half of the day may lack where it is told in words on the other side."""
    if gold.is_known == answer.is_known:
        return gold.seconds == answer.seconds
    known, other = (gold, answer) if gold.is_known else (answer, gold)
    return known.is_told and (known.seconds - other.seconds) % (_NOON * 3600) == 0
