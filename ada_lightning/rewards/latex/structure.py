"""What kind of answer a text is: one value, several, a point, an interval, a matrix, a ratio, or words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from ada_lightning.rewards.latex.clock import read_time
from ada_lightning.rewards.latex.cost import is_affordable, rational
from ada_lightning.rewards.latex.grammar import UnreadableError, read
from ada_lightning.rewards.latex.names import is_name, plain_name
from ada_lightning.rewards.latex.text import enclosed, split, tidy
from ada_lightning.rewards.latex.wording import CJK, is_nothing, is_roman, is_words, word_list, words

MATRIX = re.compile(r"\\begin\{(?:[pbB]?(?:small)?matrix|array)\}")
_WHOLE = re.compile(
    r"(?P<factor>[^&]*?)\s*(?:\\cdot|\\times)?\s*(?P<open>[(\[]?)\s*\\begin\{(?P<kind>[pbB]?(?:small)?matrix|array)\}\s*"
    r"(?:\{[clr|\s]*\})?(?P<cells>(?:(?!\\begin|\\end).)*)\\end\{(?P=kind)\}\s*(?P<close>[)\]]?)\s*"
    r"(?P<transposed>\^\s*\{?\s*(?:T|\\top|\\mathsf\s*\{?T\}?|\\text\s*\{T\})\s*\}?)?",
    re.DOTALL,
)


def cells_of(text: str) -> list[list[str]] | None:
    r"""Cut a matrix into rows of cells; None where the text is no matrix alone.

    Example:
        >>> cells_of(r"-\begin{pmatrix}1&2\\3&4\end{pmatrix}")
        [['-1', '-2'], ['-3', '-4']]
    """
    found = _WHOLE.fullmatch(text)
    if found is None or (found["kind"] == "array" and not found["open"]) or bool(found["open"]) != bool(found["close"]):
        return None
    rows = [
        split(row.replace(r"\hline", ""), frozenset("&")) for row in found["cells"].split(r"\\") if row.strip()
    ]  # fmt: skip
    if found["transposed"]:
        rows = [list(row) for row in zip(*rows, strict=False)]
    factor = found["factor"].strip()
    if not factor:
        return rows
    scaled = [[_times(factor, cell) for cell in row] for row in rows]
    return None if any(cell is None for row in scaled for cell in row) else [[str(c) for c in row] for row in scaled]


def _times(factor: str, cell: str) -> str | None:
    """Multiply a cell, a number by carrying it out."""
    first, second = _number("-1" if factor == "-" else factor), _number(cell)
    if first is None:
        return None if not re.fullmatch(r"[-+\\A-Za-z0-9{}^/ .]+", factor) or "=" in factor else rf"{factor}({cell})"
    if second is None:
        return rf"{factor}({cell})"
    value = first * second
    return str(value) if value.denominator == 1 else rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def _number(text: str) -> Fraction | None:
    try:
        tree = read(text)
    except UnreadableError:
        return None
    return rational(tree) if is_affordable(tree) else None


_ALL_REAL = r"\mathbb{R}"
_SEPARATORS = {",": ",", ";": ",", r"\AND": "and", r"\OR": "or"}
_COMMA = frozenset((",", ";"))
_CUP = frozenset((r"\cup",))
_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")
_AND = re.compile(
    r"\\text\s*\{\s*,?\s*(?:and|\u548c|\u4e14|\u4e0e|\u53ca)\s*\}|(?<![A-Za-z\\])and(?![A-Za-z])"
    rf"|(?<![{CJK}])(?:\u548c|\u4e14|\u4e0e|\u53ca)(?![{CJK}])"
)
_OR = re.compile(
    r"\\text\s*\{\s*,?\s*(?:or|\u6216\u8005?)\s*\}|(?<![A-Za-z\\])or(?![A-Za-z])"
    rf"|(?<![{CJK}])\u6216\u8005?(?![{CJK}])"
)
_MEMBER = re.compile(r"^\(?[A-Za-z](?:_\{?[A-Za-z0-9]+\}?)?(?:,\s*[A-Za-z])*\)?\s*\\in(?![A-Za-z])\s*")
_POINT_NAME = re.compile(r"^(?:\\text\s*\{\s*[Pp]oints?\s*\}\s*)?(?P<name>[ABD-Z](?:'|_\{?[0-9]\}?)?)\s*(?=\()")
_PLUS_MINUS = re.compile(r"\\(?:pm|mp)(?![A-Za-z])")
_RESIDUE = re.compile(
    r"(?:[A-Za-z]\s*\\equiv(?![A-Za-z])\s*)?(?P<value>[^=<>,]*?)\s*(?:\\pmod(?![A-Za-z])\s*(?:\{(?P<braced>[^{}]+)\}"
    r"|(?P<bare>[0-9A-Za-z]))|\(\s*(?:\\text\s*\{\s*)?\\?(?:mod|bmod)(?:\s*\})?\s*(?P<bracketed>[0-9A-Za-z]+)\s*\)"
    r"|\\b?mod(?![A-Za-z])\s*\{?\s*(?P<plain>[0-9A-Za-z]+)\s*\}?)"
)
_CIRCLE = "[\u2460-\u2473]"
_CIRCLED = re.compile(rf"{_CIRCLE}(?:\s*(?:,|and|\u548c|\u4e0e|\u53ca)?\s*{_CIRCLE})*")
_TEXT_THEN_AND = re.compile(r"\\text\s*\{\s*([^{}]*\S)\s+(and|or)\s*\}")
_ALL_WORDS = re.compile(
    r"(?:x is )?(?:all|any) real (?:numbers?|values?)(?: of x)?|all reals"
    "|\u5168\u4f53\u5b9e\u6570|\u4efb\u610f\u5b9e\u6570"
)
_RELATION = re.compile(r"[<>]|\\(?:[lg]e|ne)(?![a-zA-Z])")
_DOTS = re.compile(r"\\(?:l|c)?dots(?:[cbmo])?(?![A-Za-z])|\.\.\.")
MAX_ITEMS = 64
_MAX_LEVELS = 6
_MAX_SIGNS = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer by its structure."""

    kind: str
    """``value``, ``words``, ``list`` (several without brackets), ``set``, ``union``, ``matrix``, ``ratio``, ``residue``
    (a number and its modulus), or the two brackets of a point or interval, such as ``(]``."""
    text: str
    """Tidy LaTeX of the whole."""
    items: tuple[Answer, ...] = ()
    """Parts in their order; rows of a matrix are of kind ``row``."""
    name: str = ""
    """What the brackets, set, matrix or ratio were said to be equal to, such as ``(x,y)``."""
    joint: str = ","
    """What joins the parts of a list: ``and``, ``or`` or a comma."""

    def key(self) -> str:
        """Text by which equally written answers are recognised."""
        if self.kind == "words":
            return words(self.text)
        if self.items:
            keys = [item.key() for item in self.items]
            if self.kind in ("list", "set", "union") and r"\ldots" not in keys:
                keys.sort()
            has_meaning = self.kind == "list" and (self.items[0].kind == "words" or _RELATION.search(self.text))
            joint = self.joint.replace("and", "" if self.items[0].kind == "words" else "and") if has_meaning else ""
            joint = joint.replace(",", "")
            name = f"{self.name}=" if self.name else ""
            return f"{name}{'' if self.kind in ('list', 'set') else self.kind}{joint}[{'; '.join(keys)}]"
        return re.sub(r"\s+(?![0-9])|(?<![0-9])\s+", "", self.text)  # 3 3/4 is not 33/4


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
    if _CIRCLED.fullmatch(tidied):
        items = tuple(Answer("words", sign) for sign in re.findall(_CIRCLE, tidied))
        return Answer("list", tidied, items) if len(items) > 1 else items[0]
    if is_words(tidied):
        return _words(tidied)
    tidied = _TEXT_THEN_AND.sub(r"\\text{\1} \2 ", tidied)
    tidied = _OR.sub(r"\\OR ", _AND.sub(r"\\AND ", tidied))
    if _RELATION.search(tidied):
        tidied = re.sub(
            r"\\(?:land|wedge)(?![a-zA-Z])", r"\\AND ", re.sub(r"\\(?:lor|vee)(?![a-zA-Z])", r"\\OR ", tidied)
        )
    if commas_group_digits:
        tidied = _group_digits(tidied)
    return read_part(tidied)


@lru_cache(maxsize=4096)
def readings(text: str) -> tuple[Answer, ...]:
    """Return one reading, or two where commas may group digits or separate them."""
    grouped, separated = read_answer(text), read_answer(text, commas_group_digits=False)
    return (grouped,) if grouped == separated else (grouped, separated)


def read_part(text: str) -> Answer:
    """Recognise the structure of tidy LaTeX."""
    return _read(text, 0)


def _read(text: str, level: int) -> Answer:
    if level > _MAX_LEVELS:
        return Answer("value", text)
    if (named := _named(text, level)) is not None:
        return named
    if MATRIX.search(text) is not None and (rows := cells_of(text)) is not None:
        items = tuple(
            Answer("row", "&".join(row), tuple(_read(cell, level + 1) for cell in row[:MAX_ITEMS]))
            for row in rows[:MAX_ITEMS]
        )
        return Answer("matrix", text, items)
    text = _MEMBER.sub("", text)
    if (residue := _residue(text)) is not None:
        return residue
    parts = [part for part in split(text, _CUP) if part]
    if 1 < len(parts) <= MAX_ITEMS:
        items = tuple(_read(part, level + 1) for part in parts)
        if all(item.kind == "set" for item in items):
            return Answer("set", text, _flat(part for item in items for part in item.items))
        return Answer("union", text, items)
    return _listed(text, level) or _signs(text, level) or _bracketed(text, level) or _ratio(text, level) or _value(text)


def _named(text: str, level: int) -> Answer | None:
    """``(x,y) = (1,2)``, ``A^{-1} = `` a matrix, ``a:b = 2:3``, ``P(1,2)``: what is behind the name, with its name."""
    sides = split(text, frozenset("="))
    if len(sides) == 2 and all(sides):
        parts = split(sides[0], frozenset(":"))
        value = _read(sides[1], level + 1) if all(map(is_name, parts)) else Answer("value", "")
        if value.kind == "residue" or (
            value.items and value.kind not in ("list", "words")
        ):  # of a list it is the first part's
            return replace(value, name=plain_name(sides[0]))
    found = _POINT_NAME.match(text)
    if found is not None and (brackets := enclosed(text[found.end() :])) is not None and "|" not in text:
        value = _read(text[found.end() :], level + 1)
        is_point = value.kind == "()" or (value.kind == "list" and all(item.kind == "()" for item in value.items))
        return replace(value, name=found["name"]) if brackets[0] == "(" and is_point else None
    return None


def _listed(text: str, level: int) -> Answer | None:
    parts = [part for part in split(text, frozenset(_SEPARATORS)) if part]
    if not 1 < len(parts) <= MAX_ITEMS:
        return None
    joints = {
        name for sign, name in _SEPARATORS.items() if sign[0] == "\\" and len(split(text, frozenset((sign,)))) > 1
    }
    if all(map(is_roman, parts)) and any(len(part) > 1 for part in parts):
        items: tuple[Answer, ...] = tuple(Answer("words", part) for part in parts)
    else:
        items = _flat(_read(part, level + 1) for part in parts)
    return Answer("list", text, items, joint=joints.pop() if len(joints) == 1 else ",")


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
    is_builder = re.search(r"\||(?<!:):(?!:)", content) is not None and re.search(
        r"[<>]|\\(?:[lg]e|in|ne)(?![a-z])", content
    )
    if opening == r"\{" and closing == r"\}" and parts and len(parts) <= MAX_ITEMS and not is_builder:
        return Answer("set", text, _flat(_read(part, level + 1) for part in parts))
    if opening + closing == "{}" or (len(parts) == 1 and opening + closing == "()"):
        return _read(content, level + 1)
    if opening in "([" and closing in ")]" and 1 < len(parts) <= MAX_ITEMS:
        return Answer(opening + closing, text, tuple(_read(part, level + 1) for part in parts))
    return None


def _signs(text: str, level: int) -> Answer | None:
    r"""``a \pm b`` stands for two values, ``(\pm1, 0)`` for two points; two ``\pm`` are independent, ``\mp`` is not."""
    signs = _PLUS_MINUS.findall(text)
    if not signs or level > _MAX_LEVELS - 1 or text.startswith(r"\{"):
        return None
    if r"\mp" in signs or len(signs) > _MAX_SIGNS:
        chosen = [dict(zip((r"\pm", r"\mp"), pair, strict=True)) for pair in ("+-", "-+")]
        texts = [_PLUS_MINUS.sub(lambda found, one=one: one[found[0]], text) for one in chosen]  # type: ignore[misc]
    else:
        texts = [text]
        for _ in signs:
            texts = [_PLUS_MINUS.sub(sign, one, count=1) for one in texts for sign in "+-"]
    return Answer("list", text, _flat(_read(one, level + 1) for one in dict.fromkeys(texts)))


def _ratio(text: str, level: int) -> Answer | None:
    """``2:3`` and ``2:3:4``."""
    if (time := read_time(text)) is not None and time.is_told:
        return None
    parts = split(text.replace("{:}", ":"), frozenset(":"))
    if len(parts) < 2 or not all(parts) or re.search(r"=|<|>|[A-Za-z]{3}", re.sub(r"\\[a-zA-Z]+", "", text)):
        return None
    return Answer("ratio", text.replace("{:}", ":"), tuple(_value(part) for part in parts[:MAX_ITEMS]))


def _residue(text: str) -> Answer | None:
    r"""``x \equiv 5 \pmod 7``: 5 and 7."""
    found = _RESIDUE.fullmatch(text)
    if found is None or not found["value"]:
        return None
    modulus = found["braced"] or found["bare"] or found["bracketed"] or found["plain"]
    return Answer("residue", text, (_value(found["value"]), _value(modulus)))


def _words(text: str) -> Answer:
    if is_nothing(text):
        return Answer("set", r"\emptyset")
    if _ALL_WORDS.fullmatch(words(text)):
        return _read(_ALL_REAL, 0)
    found = word_list(text)
    if found is not None:
        return Answer("list", text, tuple(Answer("words", part) for part in found[0][:MAX_ITEMS]), joint=found[1])
    return _value(text)


def _value(text: str) -> Answer:
    if _DOTS.fullmatch(text):
        return Answer("value", r"\ldots")
    if not is_words(text):
        return Answer("value", text)
    plain = words(text, fold=False)
    return Answer("words", text) if len(plain) > 1 else Answer("value", plain or text)


def _flat(answers: Iterable[Answer]) -> tuple[Answer, ...]:
    flat: list[Answer] = []
    for answer in answers:
        flat.extend(answer.items if answer.kind == "list" else [answer])
    return tuple(flat[:MAX_ITEMS])


def _group_digits(text: str) -> str:
    """Remove commas that group digits in threes, where they stand outside of brackets; braces alone are none."""
    pieces, last = [], 0
    for found in _THOUSANDS.finditer(text):
        before = re.sub(r"(?<!\\)[{}]", "", text[: found.start()])
        level = sum((character in "([{") - (character in ")]}") for character in before)
        pieces += [text[last : found.start()], found[0].replace(",", "") if level <= 0 else found[0]]
        last = found.end()
    return "".join(pieces) + text[last:]
