r"""Sets of real numbers however they are written: inequalities, intervals, unions, what is left without some points."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from fractions import Fraction

from ada_lightning.rewards.latex.grammar import UnreadableError, read
from ada_lightning.rewards.latex.names import is_name, plain_name
from ada_lightning.rewards.latex.structure import Answer, read_part
from ada_lightning.rewards.latex.symbolic import decimal_value, linear
from ada_lightning.rewards.latex.text import enclosed

_OPERATOR = re.compile(r"(<|>|\\[lg]e(?![a-zA-Z])|\\ne(?![a-zA-Z]))")
_TURNED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le", r"\ne": r"\ne"}
_BUILDER = re.compile(
    r"\(?\s*[A-Za-z]\s*\)?\s*(?:\\in\s*(?:\\mathbb\s*\{?\s*)?R\s*\}?)?\s*(?:\||:)\s*(?P<condition>.+)", re.DOTALL
)
_WITHOUT = re.compile(
    r"(?:\\mathbb\s*\{R\}|R|\(-\\infty\s*,\s*\+?\\infty\s*\))\s*(?:\\setminus|\\backslash|-)\s*(?P<points>\\\{.+\\\})"
)
_NEAR = Fraction(1, 10**40)
_Bound = float | Fraction


@dataclass(frozen=True, slots=True)
class _Piece:
    lower: _Bound
    upper: _Bound
    has_lower: bool
    has_upper: bool
    texts: tuple[str, str]

    @property
    def is_empty(self) -> bool:
        return self.lower > self.upper or (_same(self.lower, self.upper) and not (self.has_lower and self.has_upper))


def as_intervals(answer: Answer, *, is_gold: bool = False) -> Answer:
    r"""Write an inequality, several, or a union as an interval or a union of intervals that do not meet.

    Anything else stays as it is, as does what has bounds with variables but ``a < x < b``.

    Args:
        answer: of any structure.
        is_gold: read ``|x-1| < 2``, too; as an answer it would be the task.

    Example:
        >>> from ada_lightning.rewards.latex.structure import read_answer
        >>> as_intervals(read_answer(r"0 \le x < 1")).text, as_intervals(read_answer("x + 1")).text
        ('[0,1)', 'x + 1')
        >>> as_intervals(read_answer(r"[0,1] \cup [1,2]")).text
        '[0,2]'
    """
    found = _pieces(answer, is_gold)
    if found is None:
        return _with_variables(answer) or answer
    name, pieces = found
    items = tuple(_as_answer(piece) for piece in _merged(pieces))
    if not items:
        return Answer("set", r"\emptyset", name=name)
    return replace(items[0] if len(items) == 1 else Answer("union", answer.text, items), name=name)


def _pieces(answer: Answer, is_gold: bool) -> tuple[str, list[_Piece]] | None:
    """The name of the variable, empty where there is none, and intervals; None for anything but a set of numbers."""
    if answer.kind == "value":
        return _of_text(answer.text, is_gold)
    if answer.kind == "set" and (answer.items or answer.text == r"\emptyset"):
        points = [_interval("[", item.text, item.text, "]") for item in answer.items if item.kind == "value"]
        found = [point for point in points if point is not None]
        return (answer.name, found) if len(found) == len(answer.items) else None
    if answer.kind in ("()", "(]", "[)", "[]") and [item.kind for item in answer.items] == ["value", "value"]:
        piece = _interval(answer.kind[0], answer.items[0].text, answer.items[1].text, answer.kind[1])
        return None if piece is None or piece.is_empty else (answer.name, [piece])
    if answer.kind not in ("union", "list") or not answer.items:
        return None
    parts = [_pieces(item, is_gold) for item in answer.items]
    names = {part[0] for part in parts if part is not None and part[0]}
    if None in parts or len(names) > 1 or (answer.kind == "list" and not names):
        return None
    name, sets = "".join(names) or answer.name, [part[1] for part in parts if part is not None]
    joined = [piece for pieces in sets for piece in pieces]
    if answer.joint == "and" or (answer.kind == "list" and answer.joint == "," and _is_everything(joined)):
        common = [_Piece(-math.inf, math.inf, False, False, (r"-\infty", r"\infty"))]
        for pieces in sets:
            common = [_common(first, second) for first in common for second in pieces]
        return name, common
    return name, joined


def _of_text(text: str, is_gold: bool) -> tuple[str, list[_Piece]] | None:
    if (without := _WITHOUT.fullmatch(text)) is not None:
        points = _pieces(read_part(without["points"]), is_gold)
        return None if points is None else ("", _complement(points[1]))
    brackets = enclosed(text)
    if brackets is not None and brackets[0] + brackets[2] == r"\{\}":
        builder = _BUILDER.fullmatch(brackets[1])
        found = None if builder is None else _pieces(read_part(builder["condition"]), is_gold)
        return None if found is None else ("", found[1])
    return _inequality(text, is_gold)


def _inequality(text: str, is_gold: bool) -> tuple[str, list[_Piece]] | None:
    parts = [part.strip() for part in _OPERATOR.split(text)]
    if not all(parts):
        return None
    if len(parts) == 5 and is_name(parts[2]):
        lower, first, name, second, upper = parts
        if first in (">", r"\ge"):
            lower, first, second, upper = upper, _TURNED[second], _TURNED[first], lower
        if {first, second} - {"<", r"\le"}:
            return None
        piece = _interval("(" if first == "<" else "[", lower, upper, ")" if second == "<" else "]")
        return None if piece is None else (plain_name(name), [piece])
    if len(parts) != 3:
        return None
    left, operator, right = parts
    if right.startswith("|") or (is_name(right) and not is_name(left)):
        left, operator, right = right, _TURNED[operator], left
    if left.startswith("|") and left.endswith("|") and "|" not in left[1:-1]:
        return _distance(left[1:-1].strip(), operator, right, is_gold)
    if not is_name(left):
        return None
    pieces = _half(operator, right)
    return None if pieces is None else (plain_name(left), pieces)


def _half(operator: str, bound: str) -> list[_Piece] | None:
    if operator == r"\ne":
        point = _interval("[", bound, bound, "]")
        return None if point is None else _complement([point])
    if operator in ("<", r"\le"):
        piece = _interval("(", r"-\infty", bound, ")" if operator == "<" else "]")
    else:
        piece = _interval("(" if operator == ">" else "[", bound, r"\infty", ")")
    return None if piece is None else [piece]


def _distance(inside: str, operator: str, bound: str, is_gold: bool) -> tuple[str, list[_Piece]] | None:
    r"""``|x| < 2``, and in a gold ``|2x-1| \le 3``: an interval around a point, or all without one."""
    try:
        found, radius = linear(read(inside)), decimal_value(read(bound))
    except UnreadableError:
        return None
    if found is None or radius is None or radius < 0 or operator == r"\ne" or not (is_gold or is_name(inside)):
        return None
    name, slope, start = found
    ends = sorted((side - start) / slope for side in (-radius, radius))
    texts = [bound if end == radius else f"-{bound}" if end == -radius else str(end) for end in ends]
    has_end = operator in (r"\le", r"\ge")
    near = _Piece(ends[0], ends[1], has_end, has_end, (texts[0], texts[1]))
    if operator in ("<", r"\le"):
        return name, [near]
    return name, _complement([replace(near, has_lower=not has_end, has_upper=not has_end)])


def _interval(opening: str, lower: str, upper: str, closing: str) -> _Piece | None:
    bounds = [_bound(lower), _bound(upper)]
    if bounds[0] is None or bounds[1] is None:
        return None
    return _Piece(bounds[0], bounds[1], opening == "[", closing == "]", (lower, upper))


def _bound(text: str) -> _Bound | None:
    plain = text.replace(" ", "")
    if plain in (r"\infty", r"+\infty", r"-\infty"):
        return -math.inf if plain[0] == "-" else math.inf
    try:
        return decimal_value(read(text))
    except UnreadableError:
        return None


def _same(first: _Bound, second: _Bound) -> bool:
    if isinstance(first, float) or isinstance(second, float):
        return first == second
    return abs(first - second) <= _NEAR


def _merged(pieces: list[_Piece]) -> list[_Piece]:
    merged: list[_Piece] = []
    for piece in sorted((p for p in pieces if not p.is_empty), key=lambda p: (p.lower, not p.has_lower)):
        last = merged[-1] if merged else None
        touches = last is not None and _same(last.upper, piece.lower) and (last.has_upper or piece.has_lower)
        if last is None or (piece.lower >= last.upper and not touches):
            merged.append(piece)
            continue
        if _same(piece.upper, last.upper):
            merged[-1] = replace(last, has_upper=last.has_upper or piece.has_upper)
        elif piece.upper > last.upper:
            texts = (last.texts[0], piece.texts[1])
            merged[-1] = replace(last, upper=piece.upper, has_upper=piece.has_upper, texts=texts)
    return merged


def _is_everything(pieces: list[_Piece]) -> bool:
    merged = _merged(pieces)
    return len(merged) == 1 and merged[0].lower == -math.inf and merged[0].upper == math.inf


def _common(first: _Piece, second: _Piece) -> _Piece:
    low = max(first, second, key=lambda p: (p.lower, not p.has_lower))
    high = min(first, second, key=lambda p: (p.upper, p.has_upper))
    return _Piece(low.lower, high.upper, low.has_lower, high.has_upper, (low.texts[0], high.texts[1]))


def _complement(pieces: list[_Piece]) -> list[_Piece]:
    left: list[_Piece] = []
    lower: _Bound = -math.inf
    text, has_lower = r"-\infty", False
    for piece in _merged(pieces):
        left.append(_Piece(lower, piece.lower, has_lower, not piece.has_lower, (text, piece.texts[0])))
        lower, text, has_lower = piece.upper, piece.texts[1], not piece.has_upper
    left.append(_Piece(lower, math.inf, has_lower, False, (text, r"\infty")))
    return [piece for piece in left if not (piece.is_empty or piece.lower == math.inf or piece.upper == -math.inf)]


def _as_answer(piece: _Piece) -> Answer:
    lower, upper = (Answer("value", text) for text in piece.texts)
    if _same(piece.lower, piece.upper):
        return Answer("set", rf"\{{{lower.text}\}}", (lower,))
    brackets = ("[" if piece.has_lower else "(") + ("]" if piece.has_upper else ")")
    return Answer(brackets, f"{brackets[0]}{lower.text},{upper.text}{brackets[1]}", (lower, upper))


def _with_variables(answer: Answer) -> Answer | None:
    """``a < x < b`` and ``x > a``, whose bounds have no numbers to put in order."""
    parts = [part.strip() for part in _OPERATOR.split(answer.text)] if answer.kind == "value" else []
    if len(parts) == 5 and is_name(parts[2]) and {parts[1], parts[3]} <= {"<", r"\le"} and all(parts):
        brackets = ("(" if parts[1] == "<" else "[") + (")" if parts[3] == "<" else "]")
        items = (Answer("value", parts[0]), Answer("value", parts[4]))
        text = f"{brackets[0]}{parts[0]},{parts[4]}{brackets[1]}"
        return Answer(brackets, text, items, plain_name(parts[2]))
    return None
