"""Equality of two answers by their structure, part by part."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from ada_lightning.rewards.latex.cpu_budget import CpuBudget, CpuBudgetError
from ada_lightning.rewards.latex.inequality import as_intervals
from ada_lightning.rewards.latex.quantity import Quantity, read_counted, read_number, read_quantity
from ada_lightning.rewards.latex.structure import Answer, words
from ada_lightning.rewards.latex.symbolic import are_equal
from ada_lightning.rewards.latex.text import split
from ada_lightning.rewards.latex.tolerance import EXACT, Tolerance
from ada_lightning.rewards.latex.tree import Tree, UnreadableError, read

_EQUALS = frozenset("=")
_NAME = re.compile(
    r"(?:[A-Za-z]|\\[a-zA-Z]+)(?:_(?:[A-Za-z0-9]|\{[A-Za-z0-9]+\}))?(?:\([A-Za-z](?:,\s*[A-Za-z])*\))?'?"
)
_NAMES = re.compile(r"\(?[A-Za-z](?:,\s*[A-Za-z])+\)?")
_TEXT = re.compile(r"\\text\s*\{[^{}]*\}")
MAX_CPU_S = 2.0
"""Seconds that algebra may compute for one answer, far more than what people write down takes (milliseconds)."""
_MAX_PAIRS = 200
"""Comparisons of parts, so that two lists of equal length cannot ask for thousands."""


class Comparison:
    """Compares one answer with one gold answer.

    Args:
        tolerance: of numbers with a decimal point.
    """

    def __init__(self, tolerance: Tolerance) -> None:
        self.tolerance = tolerance
        self._budget = CpuBudget(MAX_CPU_S)
        self._pairs = 0

    def are_equal(self, gold: Answer, answer: Answer) -> bool:
        """Compare structures: the same kind, the same number of parts, each part equal.

        A list without brackets and a set are unordered and equal to each other. A point may lack its brackets. Unions
        of intervals are unordered. Brackets of intervals and points must agree.
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
        if len(kinds) == 1 or kinds == {"list", "()"}:
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
        if gold.kind == answer.kind == "words":
            return False  # their keys differ
        is_text = _TEXT.fullmatch(gold.text) or _TEXT.fullmatch(answer.text)  # June 5
        if is_text and words(gold.text) == words(answer.text):
            return True
        if _is_choice(gold.text):
            return _chosen(answer.text) == gold.text
        expected, given = _sides(gold.text), _sides(answer.text)
        if len(given) > 1 and len(expected) == 1:
            given = given[-1:]
        elif len(expected) > 1 and len(given) == 1 and _is_name(expected[0]):
            expected = expected[-1:]
        elif len(expected) > 1 and len(given) > 1 and _is_name(expected[0]) and _is_name(given[0]):
            if re.sub(r"[\s{}]", "", expected[0]) != re.sub(r"[\s{}]", "", given[0]):
                return self._same_expression(gold.text, answer.text)  # y = x is x = y
            expected, given = expected[-1:], given[-1:]
        if len(expected) == len(given) == 1:
            return self._same_quantity(read_quantity(expected[0]), read_quantity(given[0]))
        return self._same_expression(gold.text, answer.text)

    def _same_quantity(self, gold: Quantity, answer: Quantity) -> bool:
        if gold.unit and answer.unit and gold.unit != answer.unit:
            return False
        if (gold.unit and answer.is_percent) or (gold.is_percent and answer.unit):
            return False
        expected, given = read_number(gold.value), read_number(answer.value)
        if (expected is None) != (given is None) and not (gold.is_percent or answer.is_percent):
            counted = read_counted((gold if expected is None else answer).value)  # 18 eggs beside 18
            if counted is not None:
                pair = (counted, answer) if expected is None else (gold, counted)
                return self._same_quantity(*pair)
        if expected is None or given is None:
            return gold.is_percent == answer.is_percent and self._same_expression(gold.value, answer.value)
        tolerance = self.tolerance if expected[1] or given[1] else EXACT
        candidates = _percent_readings(expected[0], gold.is_percent, answer.is_percent)
        return any(tolerance.accepts(candidate, given[0]) for candidate in candidates)

    def _same_expression(self, gold: str, answer: str) -> bool:
        try:
            expected, given = _read(gold), _read(answer)
        except UnreadableError:
            return False
        return same_tree(expected, given, self.tolerance, self._budget)


def _read(text: str) -> Tree:
    number = read_number(text)  # 2.88e16 is no product
    return read(text) if number is None else ("number", *number)


def same_tree(gold: Tree, answer: Tree, tolerance: Tolerance, budget: CpuBudget) -> bool:
    """Compare trees; an answer that makes the algebra raise, or that spends the budget, is different.

    Untrusted text meets a large library here. Taken as a failed grade, such answers would leave the pool of a prompt,
    and a policy could learn to write them where it would be wrong.
    """
    try:
        return are_equal(gold, answer, tolerance, budget)
    except MemoryError:
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


def _sides(text: str) -> list[str]:
    return [side for side in split(text, _EQUALS) if side] or [text]


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None or _NAMES.fullmatch(text) is not None


def _is_choice(text: str) -> bool:
    return len(text) == 1 and "A" <= text <= "J"


def _chosen(text: str) -> str:
    """The letter of ``(B)``, ``B.``, ``b`` or ``(B) 12``; empty where there is none."""
    found = re.fullmatch(
        r"\(?([A-Ja-j])(?:[).:]\s*.*)?", words(text, fold=False) if len(text) < 40 else text, re.DOTALL
    )
    return found[1].upper() if found else ""
