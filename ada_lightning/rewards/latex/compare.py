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
from ada_lightning.rewards.latex.symbolic import are_equal
from ada_lightning.rewards.latex.tolerance import EXACT, Tolerance
from ada_lightning.rewards.latex.tree import Tree, UnreadableError, read

_TEXT = re.compile(r"\\text\s*\{[^{}]*\}")
_SECOND_THOUGHT = re.compile(
    r"(?<![A-Za-z])(?:[B-J]|A(?!\s+[a-z])|[a-j]\)|(?i:wait|or|not|no|nor|but|actually|maybe|perhaps|instead|wrong|false|incorrect|rather|also|"
    r"either|neither|both|correction|sorry|however|except|hmm|change|isn't|is not))(?![A-Za-z])"
)
"""What takes a choice back, or makes it two."""
MAX_CPU_S = 2.0
"""Seconds that algebra may compute for one answer, far more than what people write down takes (milliseconds)."""
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
            return self._unordered(gold.items, answer.items)
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
        if (
            not expected.others
            or (expected.name and not given.others)
            or (expected.name and expected.name == given.name)
        ):
            return self._same_statement(expected, given)
        return self._same_expression(gold.text, answer.text)  # y = x is x = y

    def _same_statement(self, gold: Statement, answer: Statement) -> bool:
        """Compare values; numbers that the answer says are equal to its own must be: 41 = 42 are two answers."""
        expected = read_quantity(gold.value, any_unit=True)
        given = _with_unit_of(expected, answer.value)
        if not self._same_quantity(expected, given):
            return False
        others = [read_quantity(side) for side in answer.others]
        return not any(
            other.unit == given.unit
            and other.is_percent == given.is_percent
            and self._differs(given.value, other.value)
            for other in others
        )

    def _differs(self, value: str, other: str) -> bool:
        """Whether another side is a constant, and not this one."""
        try:
            expected, given = _read(value), _read(other)
        except UnreadableError:
            return False
        return not has_symbol(given) and not same_tree(expected, given, self.tolerance, self._budget)

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
