"""Answers that are more than one expression: choices by letters, compounds of units, equations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from ada_lightning.rewards.latex.names import is_name, plain_name
from ada_lightning.rewards.latex.text import split
from ada_lightning.rewards.latex.unit import unit_name
from ada_lightning.rewards.latex.wording import words

_SECOND_THOUGHT = re.compile(
    r"(?<![A-Za-z])(?:[B-J]|A(?!\s+[a-z])|[a-j]\)|(?i:wait|or|not|no|nor|but|actually|maybe|perhaps|instead|wrong|"
    r"false|incorrect|rather|also|"
    r"either|neither|both|correction|sorry|however|except|hmm|change|isn't|is not))(?![A-Za-z])"
)
"""What takes a choice back, or makes it two."""
_ABOUT_CHOICES = re.compile(
    r"(?:(?:none|all|both|neither|either|any|only|not)\s+(?:of\s+)?)?(?:the above|these|them|the following)"
    r"|(?:none|all|both|neither|either|only)\s+(?:of\s+)?\(?[A-J]\)?(?:(?:\s*,\s*|\s+(?:and|or|nor)\s+)\(?[A-J]\)?)+"
    r"|\(?[A-J]\)?(?:\s+and\s+\(?[A-J]\)?)+\s+only"
    r"|no|yes|[IVX]+(?:,?\s+(?:and\s+|or\s+)?[IVX]+)*(?:\s+only)?|(?:it )?cannot be determined"
    r"|not enough information|no (?:solution|change|effect)s?",
    re.IGNORECASE,
)
"""Texts of choices that speak of other choices, or deny, as a whole."""
_BEFORE = (
    r"(?:(?:the\s+)?(?:correct\s+)?(?:options?|choices?|answers?)(?:\s+(?:is|are)|\s*:)?\s*"
    r"|(?:\u9009\u9879?|\u6545\u9009)\s*:?\s*)?"
)
_ONE = re.compile(
    rf"(?i:{_BEFORE})[(\[<\"]?([A-Ja-j])[)\]>\"]?(?:[).:]+\s*(?P<text>.*)|(?:\s+-)?\s+(?P<math>[-+$\\0-9].*))?",
    re.DOTALL,
)
_WITH_TEXT = re.compile(r"\(([A-J])\)\s*(.+)|([A-J])[.)]\s+(.+)", re.DOTALL)
_SEVERAL = re.compile(rf"(?i:{_BEFORE})\(?([A-J])\)?((?:(?:\s*[,;&/+]\s*(?:and\s+)?|\s+and\s+|\s*)\(?[A-J]\)?)+)\.?")


def is_choice(text: str) -> bool:
    """Whether a gold answer is one letter from A to J."""
    return len(text) == 1 and "A" <= text <= "J"


def with_text(gold: str) -> tuple[str, str] | None:
    """Cut a gold answer such as ``(C) 25`` into the letter and its text; None for any other.

    Example:
        >>> with_text("(C) 25"), with_text("C")
        (('C', '25'), None)
    """
    found = _WITH_TEXT.fullmatch(words(gold, fold=False))
    return None if found is None else (found[1] or found[3], found[2] or found[4])


def chosen(text: str) -> str:
    r"""The letter of ``(B)``, ``b``, ``Option B`` or ``(B) 12``; empty where there is none, or a second thought.

    Example:
        >>> chosen("(B) 12"), chosen("B. Wait, it is C"), chosen(r"\text{Answer: B}")
        ('B', '', 'B')
    """
    plain = words(text, fold=False)
    found = _ONE.fullmatch(plain) or _ONE.fullmatch(text.strip())
    if found is None:
        return ""
    rest = (found["text"] or found["math"] or "").strip().rstrip(".")
    if found[1].islower() and (found["math"] or text.strip()[1:2] == ":"):
        return ""  # a 5% chance, a:b
    is_fair = not _SECOND_THOUGHT.search(rest) or _ABOUT_CHOICES.fullmatch(rest)
    return found[1].upper() if is_fair else ""


def letters(text: str) -> frozenset[str]:
    r"""The letters of several choices, each once: ``AC``, ``A, C``, ``(A) and (C)``; empty for anything else.

    Example:
        >>> sorted(letters("A and D")), sorted(letters("ABD")), letters("BAD"), letters("A")
        (['A', 'D'], ['A', 'B', 'D'], frozenset(), frozenset())
    """
    plain = words(text, fold=False)
    found = _SEVERAL.fullmatch(plain)
    if found is None:
        return frozenset()
    several = re.findall(r"[A-J]", found[1] + re.sub(r"(?<![A-Z])and(?![A-Z])", "", found[2]))
    is_joined = re.fullmatch(r"[A-J]+", plain) is not None
    is_fair = len(set(several)) == len(several) and (not is_joined or several == sorted(several))
    return frozenset(several) if is_fair else frozenset()


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


_EQUALS = frozenset(("=", r"\approx"))
_ABOUT = re.compile(
    r"^(?:\\approx(?![a-zA-Z])|(?:\\text\s*\{\s*)?(?:about|approximately|approx\.?|roughly)(?![A-Za-z])(?:\s*\})?)\s*"
    r"(?=[-+$0-9\\.])",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"^((?:[^\W\d_]{3,}[^\W\d_ ]*(?: [^\W\d_]+)*|\\text\s*\{[^{}:]*[^\W\d_]{2}[^{}:]*\}))\s*:\s*(?=[^\s:=])"
)
_LABEL_IN_TEXT = re.compile(r"^\\text\s*\{([^{}:]*[^\W\d_]{2}[^{}:]*):\s*\}\s*(?=[^\s:=])")
_DENIAL = re.compile(
    r"[<>\u2260\u2248~]|\\(?:not[a-z]*|neg?|neq|n[a-z]*eq|lnot|[lg]e|sim|simeq|cong|ll|gg|l?or|l?and|vee|wedge)(?![a-zA-Z])"
    r"|(?:[-+/^_:*,;]|\\cdot|\\times|\\div)\s*$"
    r"|(?<![A-Za-z\\])(?:not|no|never|isn|isnt|isn't|non|nor|neither|un|without|except|wrong|false|incorrect|unequal|"
    r"different|opposite|than|at least|at most|about|almost|nearly|roughly|maybe|perhaps|possibly|or|minus|plus|half|"
    r"twice|double|instead|if|unless|whether)(?![A-Za-z])",
    re.IGNORECASE,
)
"""What a side before an equal sign may not hold: another relation, an operator without its right side, and words that
take back or change what follows."""
_INSIDE = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|_\{[^{}]*\}")


@dataclass(frozen=True, slots=True)
class Statement:
    """A value, what it is said to be equal to, and how it is called."""

    value: str
    """Tidy LaTeX: the last side."""
    others: tuple[str, ...] = ()
    """The other sides in their order that are no names."""
    name: str = ""
    """The first name among the sides, without spaces and braces; empty where there is none."""


def read_statement(text: str) -> Statement | None:
    r"""Read what equal signs of tidy LaTeX state, outside of brackets: the last side, or the first of ``5 = x``.

    A label before a colon is a name, too, and ``\approx`` an equal sign.

    Returns:
        None where a side is empty, or one before the last takes the equality back: ``x >= = 5``, ``x =/= 5``,
        ``\text{not} = 5``.

    Example:
        >>> read_statement("x = 2+3 = 5"), read_statement("5 = x").value, read_statement(r"x \ne = 5")
        (Statement(value='5', others=('2+3',), name='x'), '5', None)
        >>> read_statement("2x = 6")
        Statement(value='6', others=('2x',), name='')
    """
    text = _LABEL.sub(r"\1=", _LABEL_IN_TEXT.sub(r"\\text{\1}=", _ABOUT.sub("", text)))
    sides = split(text, _EQUALS)
    if len(sides) == 1:
        return Statement(text)
    if not all(sides):
        return None
    if len(sides) == 2 and is_name(sides[1]) and not is_name(sides[0]):
        sides.reverse()
    if any(_DENIAL.search(_INSIDE.sub("", side) if is_name(side) else side) for side in sides[:-1]):
        return None
    names = [side for side in sides[:-1] if is_name(side)]
    others = tuple(side for side in sides[:-1] if not is_name(side))
    return Statement(_ABOUT.sub("", sides[-1]), others, plain_name(names[0]) if names else "")
