"""Equality of two answers by their structure, part by part."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from ada_lightning.rewards.latex.cost import has_symbol
from ada_lightning.rewards.latex.cpu_budget import CpuBudget, CpuBudgetError
from ada_lightning.rewards.latex.equation import Statement, read_statement
from ada_lightning.rewards.latex.evaluated import is_worked_out
from ada_lightning.rewards.latex.quantity import Quantity, is_quotient, read_number, read_quantity
from ada_lightning.rewards.latex.structure import Answer, as_intervals, readings, words
from ada_lightning.rewards.latex.symbolic import are_equal, decimal_value
from ada_lightning.rewards.latex.tolerance import EXACT, Tolerance
from ada_lightning.rewards.latex.grammar import UnreadableError, read
from ada_lightning.rewards.latex.tree import Tree

_TEXT = re.compile(r"\\text\s*\{[^{}]*\}")
_SECOND_THOUGHT = re.compile(
    r"(?<![A-Za-z])(?:[B-J]|A(?!\s+[a-z])|[a-j]\)|(?i:wait|or|not|no|nor|but|actually|maybe|perhaps|instead|wrong|false|incorrect|rather|also|"
    r"either|neither|both|correction|sorry|however|except|hmm|change|isn't|is not))(?![A-Za-z])"
)
"""What takes a choice back, or makes it two."""
MAX_CPU_S = 0.4
"""Seconds that one answer may compute, far more than what people write down takes (milliseconds)."""
_MAX_PAIRS = 200
"""Comparisons of parts, so that two lists of equal length cannot ask for thousands."""


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
        self.tolerance = tolerance
        self.simplified = simplified
        self._budget = CpuBudget(MAX_CPU_S)
        self._pairs = 0

    def are_equal(self, gold: Answer, answer: Answer) -> bool:
        """Compare structures: the same kind, the same number of parts, each part equal.

        A list without brackets and a set are unordered and equal to each other. A point may lack its brackets where it
        can be no interval. Unions of intervals are unordered. Brackets of intervals and points must agree.
        """
        self._pairs += 1
        if gold.name and answer.name and gold.name != answer.name:
            return False
        if gold.key() == answer.key():
            return True
        if self._pairs > _MAX_PAIRS:
            return False
        if not gold.items and not answer.items:
            return self._same_value(gold, answer)
        if not gold.items or not answer.items:
            return self._one_has_parts(gold, answer)
        if "union" in (gold.kind, answer.kind):
            gold, answer = as_intervals(gold), as_intervals(answer)
        if len(gold.items) != len(answer.items):
            return False
        kinds = {gold.kind, answer.kind}
        if kinds <= {"list", "set"} or kinds == {"union"}:
            return self._same_items(gold, answer)
        if len(kinds) == 1 or (kinds == {"list", "()"} and _is_point(gold, answer)):
            return all(map(self.are_equal, gold.items, answer.items))
        return False

    def _one_has_parts(self, gold: Answer, answer: Answer) -> bool:
        """An inequality and an interval, or a value and the set of it."""
        gold, answer = (as_intervals(side) for side in (gold, answer))
        if gold.items and answer.items:
            return self.are_equal(gold, answer)
        gold, answer = (
            side.items[0] if side.kind == "set" and len(side.items) == 1 else side for side in (gold, answer)
        )
        return not gold.items and not answer.items and self.are_equal(gold, answer)

    def _same_items(self, gold: Answer, answer: Answer) -> bool:
        """Compare without order, but where one side tells by names or units which value is which: 2, 1 is no x=1, y=2."""
        labels = [_labels(side.items, any_unit=side is gold) for side in (gold, answer)]
        are_told = [len(set(found)) == len(found) for found in labels]
        if any(are_told) and len(gold.items) > 1 and set(labels[0]) != set(labels[1]):
            is_set = {gold.kind, answer.kind} & {"set"}
            return not is_set and all(map(self.are_equal, gold.items, answer.items))
        return self._unordered(gold.items, answer.items)

    def _unordered(self, gold: Sequence[Answer], answer: Sequence[Answer]) -> bool:
        remaining = list(answer)
        for expected in gold:
            match = next((index for index, item in enumerate(remaining) if self.are_equal(expected, item)), None)
            if match is None:
                return False
            del remaining[match]
        return True

    def _same_value(self, gold: Answer, answer: Answer) -> bool:
        if gold.kind == answer.kind == "time":
            first, second = gold.key(), answer.key()  # which half of the day may lack
            return first.rstrip("apm") == second.rstrip("apm") and not (first[-1] == second[-1] == "m")
        if gold.kind == answer.kind == "words" or "time" in (gold.kind, answer.kind):
            return False  # their keys differ
        is_text = _TEXT.fullmatch(gold.text) or _TEXT.fullmatch(answer.text)  # June 5
        if is_text and words(gold.text) == words(answer.text):
            return True
        if _is_choice(gold.text):
            return _chosen(answer.text) == gold.text
        expected, given = read_statement(gold.text), read_statement(answer.text)
        if expected is None or given is None:
            return False
        if expected.others and not self._is_constant(expected.others):
            return self._same_expression(gold.text, answer.text)  # an equation
        if self._same_statement(expected, given):
            return True
        return bool(expected.name and (given.name or given.others)) and self._same_expression(gold.text, answer.text)

    def _is_constant(self, sides: Sequence[str]) -> bool:
        """Whether all sides are numbers or other constants."""
        try:
            return not any(has_symbol(_read(read_quantity(side).value)) for side in sides)
        except UnreadableError:
            return False

    def _same_statement(self, gold: Statement, answer: Statement) -> bool:
        """Compare values; whatever the answer says is equal to its own must be: neither 41 = 42 nor 2x = 42 is 42."""
        if gold.name and answer.name and gold.name != answer.name:
            return False
        expected = read_quantity(gold.value, any_unit=True)
        given = _with_unit_of(expected, answer.value)
        if self._same_quantity(expected, given):
            return all(self._agrees(given, side) for side in answer.others)
        before = _with_unit_of(expected, answer.others[-1]) if answer.others else None
        if before is None or not _is_rounding(before.value, given.value):
            return False  # 5/36 = 0.139
        return self._same_quantity(expected, before) and all(self._agrees(before, side) for side in answer.others[:-1])

    def _agrees(self, value: Quantity, side: str) -> bool:
        """Whether another side is equal to a value, identically, or a rounding of it, or of another unit."""
        other = read_quantity(side)
        if (other.unit and value.unit and other.unit != value.unit) or other.is_percent != value.is_percent:
            return read_number(other.value) is not None  # 1.5 hours = 90 minutes
        if _is_rounding(other.value, value.value) or _is_rounding(value.value, other.value):
            return True
        try:
            return same_tree(_read(value.value), _read(other.value), self.tolerance, self._budget)
        except UnreadableError:
            return False

    def _same_quantity(self, gold: Quantity, answer: Quantity) -> bool:
        if gold.unit and answer.unit and gold.unit != answer.unit:
            return False
        if answer.unit.startswith("base ") and answer.unit not in (gold.unit, "base 10"):
            return False  # 101_2 is no 101
        if (gold.unit and answer.is_percent) or (gold.is_percent and answer.unit):
            return False
        expected, given = read_number(gold.value), read_number(answer.value)
        if expected is None or given is None:
            return gold.is_percent == answer.is_percent and self._same_expression(gold.value, answer.value)
        if self.simplified and is_quotient(answer.value, given[0]) and not is_quotient(gold.value, expected[0]):
            return False
        tolerance = self.tolerance if expected[1] or given[1] else EXACT
        candidates = _percent_readings(expected[0], gold.is_percent, answer.is_percent)
        return any(tolerance.accepts(candidate, given[0]) for candidate in candidates)

    def _same_expression(self, gold: str, answer: str) -> bool:
        try:
            expected, given = _read(gold), _read(answer)
        except UnreadableError:
            return False
        if self.simplified and not is_worked_out(expected, given):
            return False
        return same_tree(expected, given, self.tolerance, self._budget)


def _read(text: str) -> Tree:
    number = read_number(text)  # 2.88e16 is no product
    return read(text) if number is None or is_quotient(text, number[0]) else ("number", *number)


def _is_rounding(exact: str, rounded: str) -> bool:
    """Whether a decimal is the other constant to its last digit, with two digits that count or more."""
    found = read_number(rounded)
    digits = re.sub(r"[^0-9]", "", rounded.partition(".")[2])
    if found is None or not found[1] or "e" in rounded.lower() or len(rounded.strip("-0.")) < 2:  # noqa: PLR2004
        return False
    try:
        value = decimal_value(_read(exact))
    except UnreadableError:
        return False
    return value is not None and abs(value - found[0]) <= Fraction(51, 100) / 10 ** len(digits)


def _with_unit_of(gold: Quantity, text: str) -> Quantity:
    """Read an answer whose unit is a known one or the gold's."""
    found = read_quantity(text)
    if gold.unit and not found.unit and not found.is_percent:
        named = read_quantity(text, any_unit=True)
        return named if named.unit == gold.unit else found
    return found


def same_tree(gold: Tree, answer: Tree, tolerance: Tolerance, budget: CpuBudget) -> bool:
    """Compare trees; an answer that makes the algebra raise, or that spends the budget, is different.

    Untrusted text meets a large library here. Taken as a failed grade, such answers would leave the pool of a prompt,
    and a policy could learn to write them where it would be wrong.
    """
    try:
        return are_equal(gold, answer, tolerance, budget)
    except (MemoryError, ImportError):  # math-verify is not there: no answer is at fault
        raise
    except (Exception, CpuBudgetError):
        return False


def _percent_readings(gold: Fraction, gold_is_percent: bool, answer_is_percent: bool) -> list[Fraction]:
    """What number the answer may show, without its sign, for a gold of so many (per cent)."""
    if gold_is_percent == answer_is_percent:
        return [gold]
    if gold_is_percent:
        return [gold, gold / 100]
    return [gold * 100, gold] if abs(gold) > 1 else [gold * 100]


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


def _may_lack_brackets(gold: Answer) -> bool:
    """Whether a point cannot be meant as an interval."""
    ends = [read_number(item.text) for item in gold.items]
    first, last = ends[0], ends[-1]
    return "," in gold.name or len(ends) > 2 or (first is not None and last is not None and first[0] >= last[0])


def _is_choice(text: str) -> bool:
    return len(text) == 1 and "A" <= text <= "J"


def _chosen(text: str) -> str:
    """The letter of ``(B)``, ``B.``, ``b`` or ``(B) 12``; empty where there is none, or a second thought."""
    plain = words(text, fold=False)
    found = re.fullmatch(r"\(?([A-Ja-j])(?:[).:]\s*(.*))?", plain, re.DOTALL)
    return found[1].upper() if found and not _SECOND_THOUGHT.search(found[2] or "") else ""
