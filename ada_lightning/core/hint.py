"""What a prompt is drawn again with: the beginning of its worked solution, or a hint that the policy writes from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

SOLUTION = "solution"
"""Key of a prompt's reference that has its worked solution."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What a prompt was given of its solution: the beginning of the model's turn, or prose in the prompt itself."""

    level: int
    """Which of the solution's levels, from 1."""
    num_levels: int
    """Levels that the solution has."""
    text: str
    """Stands in front of the response where it is graded; empty where the hint stands in the prompt's messages."""
    num_tokens: int
    """Tokens by which it makes the prompt longer. They never train."""
    num_written: int = 0
    """Tokens that the policy drew to write it, also where it is refused; 0 of a solution's own lines."""
    max_new_tokens: int = 0
    """Above 0: the policy has yet to write it, in at most so many tokens. The prompt's tokens ask for it."""
    refused: str = ""
    """Why the written hint is not given, so that nothing is drawn behind it; empty where it is given."""

    @property
    def share(self) -> float:
        """Level as a share of the levels, in (0, 1]."""
        return self.level / self.num_levels


@dataclass(frozen=True, slots=True)
class Solution:
    """A worked solution as the model would write it, and the places where it may be cut."""

    text: str
    token_ids: tuple[int, ...] = ()
    """Of the text; empty where whoever generates encodes it."""
    levels: tuple[tuple[int, int], ...] = ()
    """Characters and tokens of each usable beginning, in ascending order; none where no beginning may be shown."""

    def hint(self, level: int) -> Hint:
        r"""Return a level, from 1.

        Example:
            >>> Solution("2 * 3 = 6\n6 + 1 = 7", levels=((10, 0),)).hint(1).text
            '2 * 3 = 6\n'
        """
        num_characters, num_tokens = self.levels[level - 1]
        return Hint(level, len(self.levels), self.text[:num_characters], num_tokens)


_ENDS = r"(?!\w|[.,]\d)"
_DIGITS = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
_SIGNS = (
    (re.compile(r"\\left|\\right|\\[,;! ]|\$"), ""),
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r"\1/\2"),
    (re.compile(r"\\times(?![a-z])|\\cdot(?![a-z])|[\u00d7\u00b7\u22c5\u2217]"), "*"),
    (re.compile(r"\\div(?![a-z])|\u00f7"), "/"),
    (re.compile(r"\u2212"), "-"),
    (re.compile(r"\\([%{}])"), r"\1"),
    (re.compile(r"[ \t]*([^\w\s])[ \t]*"), r"\1"),
)
"""Ways to write the same formula, and the one that they are compared in."""
_SEPARATOR = re.compile(r"(?<=[0-9])(?:,|\{,\}|,\\!|\\[,;!]|[\u00a0\u2009\u202f])(?=[0-9]{3}(?![0-9]))")
"""Between the thousands of a number."""


def shows(text: str, answer: Any) -> bool:
    r"""Whether an answer can be read in a text: as a whole word or number, and not as a part of another one.

    Example:
        >>> shows("so 12 remain", "2"), shows("so 2 remain", "2"), shows("6 / 3 = 2.", 2), shows("2.5 m", 2)
        (False, True, True, False)
        >>> shows("$1,000 in all", "1000"), shows("he pays $7.00", 7), shows("x = \u22125", "-5")
        (True, True, True)
        >>> shows("12 = 2*2*3", "2 \u00d7 2 \u00d7 3"), shows(r"so \frac{7}{39}", "7/39"), shows("24 = 2*2*2*3", "2*3")
        (True, True, False)
    """
    answer = answer.item() if hasattr(answer, "item") else answer  # a number of an array
    if isinstance(answer, bool) or not isinstance(answer, str | int | float) or not (said := str(answer).strip()):
        return False
    return _shows_formula(text, said) or _shows_number(text, said)


def _shows_formula(text: str, said: str) -> bool:
    """Whether the text has the word or formula, whatever signs it is written in, and not as a part of a longer one."""
    for pattern, plain in _SIGNS:
        text, said = pattern.sub(plain, text), pattern.sub(plain, said)
    inner = "" if said.isalnum() else "*/^"  # of a product or a quotient; a minus may be a dash
    before = rf"(?<![\w.{inner}])" if said[:1].isalnum() else ""
    behind = rf"(?![\w{inner}]|[.,]\d)" if said[-1:].isalnum() else ""
    return bool(said) and re.search(before + re.escape(said) + behind, text) is not None


def _shows_number(text: str, said: str) -> bool:
    """Whether the text has a number of the same value, with or without thousands separators and zeros at its end."""
    text, said = (_SEPARATOR.sub("", each.replace("\u2212", "-")) for each in (text, said))
    if not re.fullmatch(rf"-?{_DIGITS}", said):
        return False
    numbers = re.finditer(rf"(?<![\w.])-?(?P<size>{_DIGITS}){_ENDS}", text)
    return any(
        Decimal(found["size"]) == abs(Decimal(said)) and (said[0] != "-" or found[0][0] == "-") for found in numbers
    )


def answer_of(reference: Mapping[str, Any]) -> Any:
    """Return the answer in a prompt's reference, of a data set or of reasoning-gym; None where there is none."""
    entry = reference.get("entry")
    return reference.get("answer", entry.get("answer") if isinstance(entry, Mapping) else None)
