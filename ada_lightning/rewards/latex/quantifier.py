r"""Which variable stands for all integers: ``\frac\pi6+2k\pi, k \in \mathbb{Z}``."""

from __future__ import annotations

import re

from ada_lightning.rewards.latex.text import tidy

_WHERE = (
    r"(?:\\text\s*\{\s*,?\s*(?:where|for|with|for all|for any|for some|for every|for integers?)?\s*\}"
    r"|where|for(?: all| any| some)?|with)?"
)
_SET = (
    r"(?:\\in\s*(?:\\mathbb\s*\{?\s*[ZN]\s*\}?|\\mathbf\s*\{?\s*[ZN]\s*\}?|\\text\s*\{\s*[ZN]\s*\}|[ZN])"
    r"(?:\s*[_^]\s*(?:\{?\s*[+*0-9]+\s*\}?|\\ast))*"
    r"|(?:\\text\s*\{\s*)?(?:is |are )?(?:an |any )?integers?(?:\s*\})?)"
)
_QUANTIFIER = re.compile(
    rf"(?:\s*[,;]\s*|\s+|\s*\(\s*|(?=\\text)){_WHERE}\s*\(?\s*(?:\\forall\s*)?(?P<name>[a-z])\s*{_SET}\s*\)?\s*$"
)
_USUAL = frozenset("knm")


def same_variable(gold: str, answer: str) -> tuple[str, str]:
    r"""Take off what says that a variable is an integer, and call it in the answer as in the gold.

    Returns:
        both texts; as they were where the gold says no such thing.

    Example:
        >>> same_variable(r"2k\pi, k\in\mathbb{Z}", r"2n\pi, n \in Z")
        ('2k\\pi', '2k\\pi')
    """
    gold_text, answer_text = tidy(gold), tidy(answer)
    expected, given = _QUANTIFIER.search(gold_text), _QUANTIFIER.search(answer_text)
    if expected is None:
        return gold, answer
    name, gold_text = expected["name"], gold_text[: expected.start()]
    if given is not None:
        other, answer_text = given["name"], answer_text[: given.start()]
    else:
        free = [letter for letter in re.findall(r"(?<![\\a-zA-Z])[knm](?![a-zA-Z])", answer_text) if letter in _USUAL]
        other = free[0] if len(set(free)) == 1 else name
    if other != name and re.search(rf"(?<![\\a-zA-Z]){name}(?![a-zA-Z])", answer_text) is None:
        answer_text = re.sub(rf"(?<![\\a-zA-Z]){other}(?![a-zA-Z])", name, answer_text)
    return gold_text, answer_text
