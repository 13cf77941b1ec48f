r"""What kind of answer a text is: one value, several, a point, an interval, a matrix, or words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from ada_lightning.rewards.latex.text import enclosed, split, tidy

_ALL_REAL = r"\mathbb{R}"
_COMMA = frozenset((",", ";"))
_CUP = frozenset((r"\cup",))
_MATRIX = re.compile(r"\\begin\{([pbB]?matrix)\}(.*)\\end\{\1\}", re.DOTALL)
_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")
_CONJUNCTION = re.compile(r"\\text\s*\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])")
_WORDS = re.compile(r"(?:\\text\s*\{[^{}0-9]*\}|[A-Za-z\s.,'!?()-])+")
_MEMBER = re.compile(r"^\(?[A-Za-z](?:_\{?[A-Za-z0-9]+\}?)?(?:,\s*[A-Za-z])*\)?\s*\\in(?![A-Za-z])\s*")
_OPERATOR = re.compile(r"(<|>|\\[lg]e(?![a-zA-Z]))")
_SIDE = re.compile(r"(?:[A-Za-z]|\\(?:alpha|beta|gamma|theta|lambda|mu|phi|omega))(?:_\{?[A-Za-z0-9]+\}?)?")
_TURNED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le"}
_NAMED = re.compile(
    r"^(?P<name>(?:[A-Za-z]|\\[a-zA-Z]+)(?:_\{?[A-Za-z0-9]+\}?)?|\(\s*[A-Za-z](?:,\s*[A-Za-z])+\s*\)"
    r"|\\text\s*\{[A-Za-z ]+\})"
    r"\s*=\s*(?=[(\[]|\\\{|\\begin\{[pbB]?matrix\})"
)
TIME = re.compile(
    r"(?:[01]?[0-9]|2[0-4])\s*\{?:\}?\s*[0-5][0-9](?::[0-5][0-9])?\s*(?:\\text\s*\{\s*)?(?:[AaPp]\.?\s*[Mm]\.?)?\s*\}?"
)
"""Of day: 10:30 is no ratio."""
MAX_ITEMS = 64
_MAX_LEVELS = 6


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer by its structure."""

    kind: str
    """``value``, ``words``, ``time``, ``list`` (several without brackets), ``set``, ``union``, ``matrix``, or the two
    brackets of a point or interval, such as ``(]``."""
    text: str
    """Tidy LaTeX of the whole."""
    items: tuple[Answer, ...] = ()
    """Parts in their order; rows of a matrix are of kind ``row``."""
    name: str = ""
    """What the brackets, set or matrix were said to be equal to, such as ``(x,y)``."""

    def key(self) -> str:
        """Text by which equally written answers are recognised."""
        if self.kind == "words":
            return words(self.text)
        if self.kind == "time":
            return re.sub(r"[\s.{}]|^0(?=[0-9])", "", words(self.text))
        if self.items:
            keys = [item.key() for item in self.items]
            if self.kind in ("list", "set", "union"):
                keys.sort()
            return f"{'' if self.kind in ('list', 'set') else self.kind}[{'; '.join(keys)}]"
        return re.sub(r"\s+(?![0-9])|(?<![0-9])\s+", "", self.text)  # 3 3/4 is not 33/4


def words(text: str, *, fold: bool = True) -> str:
    r"""Words of a text answer: without ``\text``, punctuation at the ends, double spaces, and (``fold``) case.

    Example:
        >>> words(r"\text{Yes, it is}.")
        'yes, it is'
    """
    plain = re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", text)
    plain = " ".join(plain.split()).strip(" .,?()")
    plain = re.sub(r"(?<=[A-Za-z]{2})!+$", "", plain)  # after a single letter it is a factorial
    return plain.casefold() if fold else plain


def read_answer(text: str, *, commas_group_digits: bool = True) -> Answer:
    r"""Recognise the structure of an answer, in time that grows with the length of the text.

    Args:
        text: as extracted from a response.
        commas_group_digits: read ``1,000`` outside of brackets as one thousand, not as two numbers.

    Example:
        >>> read_answer(r"\{1, 2\}").kind, read_answer("(-1,2]").kind, read_answer(r"x = \pm 3").kind
        ('set', '(]', 'list')
    """
    tidied = tidy(text)
    if _is_words(tidied):
        return _value(tidied)
    tidied = _CONJUNCTION.sub(",", tidied)
    if commas_group_digits:
        tidied = _group_digits(tidied)
    return _read(tidied, 0)


@lru_cache(maxsize=4096)
def readings(text: str) -> tuple[Answer, ...]:
    """Return one reading, or two where commas may group digits or separate them."""
    grouped, separated = read_answer(text), read_answer(text, commas_group_digits=False)
    return (grouped,) if grouped == separated else (grouped, separated)


def _read(text: str, level: int) -> Answer:
    if level > _MAX_LEVELS:
        return Answer("value", text)
    if named := _NAMED.match(text):
        value = _read(text[named.end() :], level + 1)
        if value.items and value.kind != "list":  # of a list the name is that of the first part
            return replace(value, name=re.sub(r"[\s{}]", "", named["name"]))
    if matrix := _MATRIX.fullmatch(text):
        rows = [row for row in matrix[2].split(r"\\") if row.strip()]
        return Answer("matrix", text, tuple(_row(row, level) for row in rows[:MAX_ITEMS]))
    text = _MEMBER.sub("", text)
    for kind, separators in (("union", _CUP), ("list", _COMMA)):
        parts = [part for part in split(text, separators) if part]
        if 1 < len(parts) <= MAX_ITEMS:
            return Answer(kind, text, _flat(_read(part, level + 1) for part in parts))
    return _bracketed(text, level) or _signs(text, level) or _value(text)


def _bracketed(text: str, level: int) -> Answer | None:
    if text.replace(" ", "") in (r"\emptyset", r"\{\}"):
        return Answer("set", r"\emptyset")
    if text == _ALL_REAL:
        return Answer("()", text, (Answer("value", r"-\infty"), Answer("value", r"\infty")))
    found = enclosed(text)
    if found is None:
        return None
    opening, content, closing = found
    parts = [part for part in split(content, _COMMA) if part]
    if opening == r"\{" and closing == r"\}" and parts and len(parts) <= MAX_ITEMS and "|" not in content:
        return Answer("set", text, _flat(_read(part, level + 1) for part in parts))
    if opening + closing == "{}" or (len(parts) == 1 and opening + closing == "()"):
        return _read(content, level + 1)
    if opening in "([" and closing in ")]" and 1 < len(parts) <= MAX_ITEMS:
        return Answer(opening + closing, text, tuple(_read(part, level + 1) for part in parts))
    return None


def _signs(text: str, level: int) -> Answer | None:
    r"""``a \pm b`` stands for two values."""
    if not re.search(r"\\[pm][mp](?![A-Za-z])", text) or level > _MAX_LEVELS - 1:
        return None
    upper = re.sub(r"\\mp(?![A-Za-z])", "-", re.sub(r"\\pm(?![A-Za-z])", "+", text))
    lower = re.sub(r"\\mp(?![A-Za-z])", "+", re.sub(r"\\pm(?![A-Za-z])", "-", text))
    return Answer("list", text, (_value(upper), _value(lower)))


def _value(text: str) -> Answer:
    if TIME.fullmatch(text):
        return Answer("time", text)
    if not _is_words(text):
        return Answer("value", text)
    plain = words(text, fold=False)
    return Answer("words", text) if len(plain) > 1 else Answer("value", plain or text)


def _row(text: str, level: int) -> Answer:
    cells = split(text, frozenset("&"))[:MAX_ITEMS]
    return Answer("row", text, tuple(_read(cell, level + 1) for cell in cells))


def _flat(answers: Iterable[Answer]) -> tuple[Answer, ...]:
    flat: list[Answer] = []
    for answer in answers:
        flat.extend(answer.items if answer.kind == "list" else [answer])
    return tuple(flat[:MAX_ITEMS])


def _is_words(text: str) -> bool:
    r"""Words: of three letters or more (``xy`` is a product), inside of ``\text``, or a choice such as (B)."""
    if _WORDS.fullmatch(text) is None:
        return False
    plain = words(text)
    if plain.endswith("!"):
        return False
    return "\\text" in text or plain == "no" or len(plain) == 1 or re.search(r"[a-z]{3}", plain) is not None


def _group_digits(text: str) -> str:
    """Remove commas that group digits in threes, where they stand outside of brackets."""
    pieces, last = [], 0
    for found in _THOUSANDS.finditer(text):
        level = sum((character in "([{") - (character in ")]}") for character in text[: found.start()])
        pieces += [text[last : found.start()], found[0].replace(",", "") if level <= 0 else found[0]]
        last = found.end()
    return "".join(pieces) + text[last:]


def as_intervals(answer: Answer) -> Answer:
    r"""Write ``1 < x \le 3`` as ``(1,3]``, and ``x < 1 \text{ or } x > 3`` as a union; anything else stays as it is.

    Example:
        >>> as_intervals(read_answer(r"0 \le x < 1")).text, as_intervals(read_answer("x + 1")).text
        ('[0,1)', 'x + 1')
    """
    if answer.kind == "list":
        intervals = [_interval(item.text) if item.kind == "value" else None for item in answer.items]
        found = tuple(interval for interval in intervals if interval is not None)
        return Answer("union", answer.text, found) if len(found) == len(intervals) else answer
    return (_interval(answer.text) if answer.kind == "value" else None) or answer


def _interval(text: str) -> Answer | None:
    parts = [part.strip() for part in _OPERATOR.split(text)]
    if len(parts) == 3:
        left, operator, right = parts
        if _SIDE.fullmatch(right) and not _SIDE.fullmatch(left):
            left, operator, right = right, _TURNED[operator], left
        if not _SIDE.fullmatch(left):
            return None
        ends = (
            (r"-\infty", "<", operator, right)
            if operator in ("<", r"\le")
            else (right, _TURNED[operator], "<", r"\infty")
        )
    elif len(parts) == 5 and _SIDE.fullmatch(parts[2]):
        lower, first, _, second, upper = parts
        if first in (">", r"\ge"):
            lower, first, second, upper = upper, _TURNED[second], _TURNED[first], lower
        ends = (lower, first, second, upper)
    else:
        return None
    lower, first, second, upper = ends
    if not lower or not upper or {first, second} - {"<", r"\le"}:
        return None
    brackets = ("(" if first == "<" else "[") + (")" if second == "<" else "]")
    return Answer(
        brackets, f"{brackets[0]}{lower},{upper}{brackets[1]}", (Answer("value", lower), Answer("value", upper))
    )
