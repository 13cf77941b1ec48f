r"""What a chain of equal signs states: ``x = 2+3 = 5`` states 5, ``x \ne = 5`` nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ada_lightning.rewards.latex.text import split

_EQUALS = frozenset("=")
_NAME = re.compile(
    r"(?:[A-Za-z]|\\(?!text)[a-zA-Z]+)(?:_(?:[A-Za-z0-9]|\{[A-Za-z0-9]+\}))?(?:\^\{-1\})?"
    r"(?:\([A-Za-z](?:,\s*[A-Za-z])*\))?'?"
    r"|\(?[A-Za-z](?:,\s*[A-Za-z])+\)?|\\text\s*\{[A-Za-z ]+\}|[A-Za-z]{3,}(?: [A-Za-z]+)*"
)
_DENIAL = re.compile(
    r"[<>\u2260\u2248~]|\\(?:not[a-z]*|neg?|neq|n[a-z]*eq|lnot|[lg]e|approx|sim|simeq|cong|ll|gg|l?or|l?and|vee|wedge)(?![a-zA-Z])"
    r"|(?:[-+/^_:*,;]|\\cdot|\\times|\\div)\s*$"
    r"|(?<![A-Za-z\\])(?:not|no|never|isn|isnt|isn't|non|nor|neither|un|without|except|wrong|false|incorrect|unequal|"
    r"different|opposite|than|at least|at most|about|almost|nearly|roughly|maybe|perhaps|possibly|or|minus|plus|half|"
    r"twice|double|instead|if|unless|whether)(?![A-Za-z])",
    re.IGNORECASE,
)
"""What a side before an equal sign may not hold: another relation, an operator without its right side, and words that
take back or change what follows."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A value, and what it is said to be equal to."""

    value: str
    """Tidy LaTeX."""
    others: tuple[str, ...] = ()
    """The other sides in their order: names, expressions, words."""

    @property
    def name(self) -> str:
        """The first of the other sides without spaces and braces, where it is a name; else empty."""
        is_named = bool(self.others) and is_name(self.others[0])
        return re.sub(r"[\s{}]", "", self.others[0]) if is_named else ""


def is_name(text: str) -> bool:
    r"""Whether a side is a variable, a function of variables, several variables, or words.

    Example:
        >>> [is_name(text) for text in ("x_{1}", "f(x)", "x,y", r"\text{Total cost}", "2x", "x+y")]
        [True, True, True, True, False, False]
    """
    return _NAME.fullmatch(text) is not None


def read_statement(text: str) -> Statement | None:
    r"""Read what equal signs of tidy LaTeX state, outside of brackets: the last side, or the first of ``5 = x``.

    Returns:
        None where a side is empty, or one before the last takes the equality back: ``x >= = 5``, ``x =/= 5``,
        ``\text{not} = 5``.

    Example:
        >>> read_statement("x = 2+3 = 5"), read_statement("5 = x").value, read_statement(r"x \ne = 5")
        (Statement(value='5', others=('x', '2+3')), '5', None)
    """
    sides = split(text, _EQUALS)
    if len(sides) == 1:
        return Statement(text)
    if not all(sides):
        return None
    if len(sides) == 2 and is_name(sides[1]) and not is_name(sides[0]):
        sides.reverse()
    return None if any(_DENIAL.search(side) for side in sides[:-1]) else Statement(sides[-1], tuple(sides[:-1]))
