r"""Choices of a question: ``C``, ``(C) 25``, ``Option C``, and several of them, ``A, C``."""

from __future__ import annotations

import re

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
