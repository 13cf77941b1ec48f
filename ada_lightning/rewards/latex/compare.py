"""Equality of two answers by their structure, part by part."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from ada_lightning.rewards.latex.clock import read_time, same_time
from ada_lightning.rewards.latex.cost import CpuBudget
from ada_lightning.rewards.latex.evaluated import num_open
from ada_lightning.rewards.latex.grammar import UnreadableError
from ada_lightning.rewards.latex.quantity import Quantity, read_number, read_quantity
from ada_lightning.rewards.latex.reals import as_intervals
from ada_lightning.rewards.latex.scalar import Scalars, read_value, same_tree
from ada_lightning.rewards.latex.statement import chosen, is_choice, letters, read_compound, read_statement, with_text
from ada_lightning.rewards.latex.structure import Answer, readings
from ada_lightning.rewards.latex.text import tidy
from ada_lightning.rewards.latex.tolerance import Tolerance
from ada_lightning.rewards.latex.wording import is_prose, is_words, same_variable, words

MAX_CPU_S = 0.4
"""Seconds that one answer may compute, far more than what people write down takes (milliseconds)."""
_MAX_PAIRS = 200
"""Comparisons of parts, so that two lists of equal length cannot ask for thousands."""
_AMOUNT = re.compile(r"[0-9]\s*(?:\\text\s*\{\s*)?[A-Za-z]{1,4}(?![A-Za-z])")
"""A number with what may be a unit, whose case counts."""
_REGION = re.compile(r"[<>]|\\(?:[lg]e|ne|setminus|backslash)(?![a-zA-Z])|\\mathbb\{R\}")
_INTERVALS = frozenset(("()", "(]", "[)", "[]", "union", "set"))


def same_answer(
    gold: str,
    answer: str,
    *,
    tolerance: Tolerance = Tolerance(1e-6),  # noqa: B008 - frozen
    simplified: bool = True,
) -> bool:
    r"""Tell whether an answer equals the expected one as mathematics.

    Args:
        gold: LaTeX or words, as people write them. Not longer than a caller wants to spend time on.
        answer: likewise, untrusted.
        tolerance: of numbers with a decimal point.
        simplified: the answer must be worked out as far as the gold.

    Raises:
        MemoryError: there is no memory for it.

    Example:
        >>> same_answer(r"\frac{1}{2}", "0.5"), same_answer("579", "123+456")
        (True, False)
    """
    if (by_letter := _same_choice(gold, tidy(answer))) is not None:
        return by_letter
    gold = value_of(gold)
    is_text = is_prose(gold) or (is_words(tidy(gold)) and len(words(gold)) > 1)
    if is_text and not _AMOUNT.search(gold) and words(tidy(gold)) == words(tidy(answer)):
        return True
    gold, answer = same_variable(gold, answer)
    comparison = Comparison(tolerance, simplified=simplified)
    expected = readings(gold)[0]  # 1,234 is one number; as a list it has spaces
    return any(comparison.are_equal(expected, given) for given in readings(answer))


class Comparison:
    """Compares one answer with one gold answer.

    Args:
        tolerance: of numbers with a decimal point.
        simplified: an answer must be worked out as far as the gold, see
            :func:`~ada_lightning.rewards.latex.evaluated.is_worked_out`.
    """

    def __init__(self, tolerance: Tolerance, *, simplified: bool = True) -> None:
        self.scalars = Scalars(tolerance, simplified=simplified, budget=CpuBudget(MAX_CPU_S))
        self._pairs = 0

    def are_equal(self, gold: Answer, answer: Answer) -> bool:
        """Compare structures: the same kind, the same number of parts, each part equal.

        A list without brackets and a set are unordered and equal to each other. A point may lack its brackets where it
        can be no interval. Unions of intervals are unordered. Brackets of intervals and points must agree.
        """
        self._pairs += 1
        if gold.name and answer.name and gold.name != answer.name:
            return False
        if gold.key() == answer.key() and (gold.kind == "words") == (answer.kind == "words"):
            return True  # PQR is a word, and no product pqr
        if self._pairs > _MAX_PAIRS:
            return False
        if (by_time := _same_time(gold, answer)) is not None:
            return by_time
        if read_compound(gold.text) is not None or read_compound(answer.text) is not None:
            return self.scalars.are_equal(gold.text, answer.text) or self._same_structure(gold, answer)
        if any(side.kind in ("ratio", "residue") for side in (gold, answer)):
            return self._same_ratio(gold, answer) or self._same_residue(gold, answer)
        if any(map(_is_region, (gold, answer))):
            regions = as_intervals(gold, is_gold=True), as_intervals(answer)
            if all(region.kind in _INTERVALS for region in regions):
                return self._same_structure(*regions)
        return self._same_structure(gold, answer)

    def _same_structure(self, gold: Answer, answer: Answer) -> bool:
        if gold.name and answer.name and gold.name != answer.name:
            return False
        if not gold.items and not answer.items:
            kinds = {gold.kind, answer.kind}
            return "words" not in kinds - {"value"} and kinds <= {"value"} and self._same_value(gold, answer)
        if not gold.items or not answer.items:
            return self._one_has_parts(gold, answer)
        if {gold.kind, answer.kind} in ({"matrix", "()"}, {"matrix", "[]"}):
            gold, answer = (_as_vector(side) for side in (gold, answer))
        gold, answer = (
            replace(side, items=_distinct(side.items)) if side.kind == "set" else side for side in (gold, answer)
        )
        if len(gold.items) != len(answer.items):
            return False
        kinds = {gold.kind, answer.kind}
        if kinds <= {"list", "set"} or kinds == {"union"}:
            return self._same_items(gold, answer)
        if len(kinds) == 1:
            return all(map(self.are_equal, gold.items, answer.items))
        if kinds == {"list", "()"} and _is_point(gold, answer):
            first, second = _coordinates(gold, answer, is_gold=True), _coordinates(answer, gold)
            return len(first) == len(second) and all(map(self.are_equal, first, second))
        return False

    def _same_value(self, gold: Answer, answer: Answer) -> bool:
        return self.scalars.are_equal(gold.text, answer.text)

    def _one_has_parts(self, gold: Answer, answer: Answer) -> bool:
        """A value and the set of it."""
        gold, answer = (
            _distinct(side.items)[0] if side.kind == "set" and len(_distinct(side.items)) == 1 else side
            for side in (gold, answer)
        )
        if "set" in (gold.kind, answer.kind):
            return False
        if gold.items or answer.items:
            return gold.kind == answer.kind == "value" and self._same_value(gold, answer)
        return self.are_equal(gold, answer)

    def _same_ratio(self, gold: Answer, answer: Answer) -> bool:
        r"""Whether all parts have the same ratio; ``1:10`` is ``\frac{1}{10}``, and ``10:30`` a time of day."""
        for side, other in ((gold, answer), (answer, gold)):
            if side.kind == "ratio" and _is_time_alone(side.text) and not (side is answer and other.kind == "ratio"):
                return False
        if gold.kind != answer.kind:
            gold, answer = (_as_fraction(side) for side in (gold, answer))
            return gold.kind == answer.kind == "value" and self._same_value(gold, answer)
        if gold.kind != "ratio" or len(gold.items) != len(answer.items):
            return False
        try:
            expected, given = ([read_value(item.text) for item in side.items] for side in (gold, answer))
        except UnreadableError:
            return False
        if self.scalars.simplified and max(map(num_open, given)) > max(map(num_open, expected)):
            return False
        zero = ("number", Fraction(0), False)
        return zero not in (expected[0], given[0]) and all(
            same_tree(
                ("multiply", left, given[0]),
                ("multiply", right, expected[0]),
                self.scalars.tolerance,
                self.scalars.budget,
            )
            for left, right in zip(expected[1:], given[1:], strict=True)
        )

    def _same_residue(self, gold: Answer, answer: Answer) -> bool:
        r"""Whether both are one number modulo another; the modulus may lack."""
        values = [side.items[0] if side.kind == "residue" else side for side in (gold, answer)]
        if gold.kind == answer.kind == "residue":
            if not self.are_equal(gold.items[1], answer.items[1]):
                return False
            numbers = [read_number(side.text) for side in (*values, gold.items[1])]
            if all(number is not None and number[0].denominator == 1 for number in numbers):
                first, second, modulus = (int(number[0]) for number in numbers if number is not None)
                return modulus != 0 and (first - second) % modulus == 0
        return "residue" in (gold.kind, answer.kind) and self.are_equal(values[0], values[1])

    def _same_items(self, gold: Answer, answer: Answer) -> bool:
        """Compare without order, but where names or units tell which value is which: 2, 1 is no x=1, y=2."""
        if (
            "or" in {gold.joint, answer.joint}
            and {gold.joint, answer.joint} != {"or"}
            and gold.items[0].kind == "words"
        ):
            return False  # Alice or Bob
        labels = [_labels(side.items, any_unit=side is gold) for side in (gold, answer)]
        are_told = [len(set(found)) == len(found) for found in labels]
        if any(are_told) and len(gold.items) > 1 and set(labels[0]) != set(labels[1]):
            is_set = {gold.kind, answer.kind} & {"set"}
            return not is_set and all(map(self.are_equal, gold.items, answer.items))
        if any(item.key() == r"\ldots" for item in gold.items):
            return all(map(self.are_equal, gold.items, answer.items))
        return self._unordered(gold.items, answer.items)

    def _unordered(self, gold: Sequence[Answer], answer: Sequence[Answer]) -> bool:
        remaining = list(answer)
        for expected in gold:
            match = next((index for index, item in enumerate(remaining) if self.are_equal(expected, item)), None)
            if match is None:
                return False
            del remaining[match]
        return True


def value_of(gold: str) -> str:
    """Return what a gold answer says: of a choice with its text the text."""
    found = with_text(tidy(gold))
    return gold if found is None else found[1]


def _same_choice(gold: str, answer: str) -> bool | None:
    """Compare letters of choices; None where the gold is none, or its text may stand for it."""
    plain = words(tidy(gold), fold=False)
    if several := letters(plain):
        is_joined = plain.isalpha()  # AB may be a segment or a product
        return True if several == letters(answer) else None if is_joined else False
    found = with_text(plain)
    letter = plain if found is None else found[0]
    if not is_choice(letter):
        return None
    given = chosen(answer)
    return given == letter if given or found is None else None


def _same_time(gold: Answer, answer: Answer) -> bool | None:
    """Whether both are the same time of day; None where that is no question."""
    if gold.items and gold.kind != "ratio":
        return None
    expected, given = read_time(gold.text), read_time(answer.text)
    if expected is not None and given is not None:
        is_same = same_time(expected, given)
        return is_same if is_same or expected.is_told or given.is_told or _is_time_alone(gold.text) else None
    time = expected or given
    return False if time is not None and time.is_told else None


def _is_time_alone(text: str) -> bool:
    """Whether a time can be no ratio, which people write reduced: 10:30, and not 5:12."""
    found = re.fullmatch(r"\s*([0-9]+)\s*:\s*([0-9]{2})\s*", text)
    return read_time(text) is not None and not (
        found is not None and found[2][0] != "0" and math.gcd(int(found[1]), int(found[2])) == 1
    )


def _is_region(answer: Answer) -> bool:
    return answer.kind == "union" or (
        answer.kind in ("value", "list", "()") and _REGION.search(answer.text) is not None
    )


def _as_fraction(answer: Answer) -> Answer:
    if answer.kind == "ratio" and len(answer.items) == 2:
        top, bottom = (item.text for item in answer.items)
        return Answer("value", rf"\frac{{{top}}}{{{bottom}}}", name=answer.name)
    return answer


def _as_vector(answer: Answer) -> Answer:
    """Write a matrix of one column or one row as a point."""
    if answer.kind != "matrix":
        return replace(answer, kind="vector")
    if all(len(row.items) == 1 for row in answer.items):
        return Answer("vector", answer.text, tuple(row.items[0] for row in answer.items), answer.name)
    return Answer("vector", answer.text, answer.items[0].items, answer.name) if len(answer.items) == 1 else answer


def _distinct(items: Sequence[Answer]) -> tuple[Answer, ...]:
    """Parts of a set, each number once."""
    found: dict[object, Answer] = {}
    for item in items:
        number = read_number(item.text) if item.kind == "value" else None
        found.setdefault(item.key() if number is None else number[0], item)
    return tuple(found.values())


def _labels(items: Sequence[Answer], *, any_unit: bool) -> list[str]:
    """What each value is called: its name, else its unit or what is counted; empty for a bare value."""
    labels = []
    for item in items:
        statement = read_statement(item.text) if item.kind == "value" else None
        quantity = read_quantity(statement.value, any_unit=any_unit) if statement else Quantity("")
        labels.append(item.name or (statement.name if statement else "") or quantity.unit)
    return labels


def _is_point(gold: Answer, answer: Answer) -> bool:
    """Whether one without brackets can be a point: its values have names of their own, or the gold is no interval."""
    listed = gold if gold.kind == "list" else answer
    names = [item.text.partition("=")[0].strip() for item in listed.items if "=" in item.text]
    if names:
        return len(set(names)) == len(listed.items)
    return gold is not listed and _may_lack_brackets(gold)


def _coordinates(answer: Answer, other: Answer, *, is_gold: bool = False) -> Sequence[Answer]:
    """Parts of a point in the order of their names: the other side's, a gold's own, else that of the alphabet."""
    names = [item.text.partition("=")[0].strip() for item in answer.items]
    if answer.kind != "list" or not all("=" in item.text for item in answer.items):
        return answer.items
    is_own = is_gold and not set(names) <= {"x", "y", "z"}
    order = other.name.strip("()").split(",") if "," in other.name else names if is_own else sorted(names)
    by_name = dict(zip(names, answer.items, strict=True))
    return [by_name[name] for name in order] if set(order) == set(names) else []


def _may_lack_brackets(gold: Answer) -> bool:
    """Whether a point cannot be meant as an interval."""
    ends = [read_number(item.text) for item in gold.items]
    first, last = ends[0], ends[-1]
    return "," in gold.name or len(ends) > 2 or (first is not None and last is not None and first[0] >= last[0])
