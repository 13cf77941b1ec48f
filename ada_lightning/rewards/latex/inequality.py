r"""Inequalities of one name, written as intervals."""

from __future__ import annotations

import re

from ada_lightning.rewards.latex.structure import Answer

_OPERATOR = re.compile(r"(<|>|\\[lg]e(?![a-zA-Z]))")
_NAME = re.compile(r"(?:[A-Za-z]|\\(?:alpha|beta|gamma|theta|lambda|mu|phi|omega))(?:_\{?[A-Za-z0-9]+\}?)?")
_TURNED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le"}


def as_intervals(answer: Answer) -> Answer:
    r"""Write ``1 < x \le 3`` as ``(1,3]``, and ``x < 1 \text{ or } x > 3`` as a union; anything else stays as it is.

    Args:
        answer: of any kind.

    Example:
        >>> from ada_lightning.rewards.latex.structure import read_answer
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
        if _NAME.fullmatch(right) and not _NAME.fullmatch(left):
            left, operator, right = right, _TURNED[operator], left
        if not _NAME.fullmatch(left):
            return None
        ends = (
            (r"-\infty", "<", operator, right)
            if operator in ("<", r"\le")
            else (right, _TURNED[operator], "<", r"\infty")
        )
    elif len(parts) == 5 and _NAME.fullmatch(parts[2]):
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
