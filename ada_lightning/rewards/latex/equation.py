r"""What a chain of equal signs states: ``x = 2+3 = 5`` states 5, ``2x = 6`` no value, ``x \ne = 5`` nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ada_lightning.rewards.latex.names import is_name, plain_name
from ada_lightning.rewards.latex.text import split

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
