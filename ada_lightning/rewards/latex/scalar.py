"""Equality of two values without parts: words, statements, quantities, numbers and expressions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from ada_lightning.rewards.latex.cost import CpuBudget, CpuBudgetError, has_symbol
from ada_lightning.rewards.latex.evaluated import is_worked_out
from ada_lightning.rewards.latex.grammar import UnreadableError, read
from ada_lightning.rewards.latex.quantity import Quantity, is_quotient, read_number, read_quantity
from ada_lightning.rewards.latex.statement import Statement, chosen, in_family, is_choice, read_compound, read_statement
from ada_lightning.rewards.latex.symbolic import are_equal, decimal_value
from ada_lightning.rewards.latex.tolerance import EXACT, Tolerance
from ada_lightning.rewards.latex.tree import Tree, renamed, symbols
from ada_lightning.rewards.latex.unit import may_be_one
from ada_lightning.rewards.latex.wording import is_prose, words

_CONSTANTS = frozenset(("C", "c", "K", "k", "C_1", "c_1", "C_0", "const", "constant"))
"""Names of the constant of an integral."""


class Scalars:
    """Compares values of one answer.

    Args:
        tolerance: of numbers with a decimal point.
        simplified: an answer must be worked out as far as the gold, see
            :func:`~ada_lightning.rewards.latex.evaluated.is_worked_out`.
        budget: for all of them together.
    """

    def __init__(self, tolerance: Tolerance, *, simplified: bool, budget: CpuBudget) -> None:
        self.tolerance = tolerance
        self.simplified = simplified
        self.budget = budget

    def are_equal(self, gold: str, answer: str) -> bool:
        """Tell whether two values are equal: as words, as a choice, as amounts of two units, as statements."""
        if is_choice(gold):
            return chosen(answer) == gold
        if is_prose(gold) and words(gold) == words(answer) and not _is_amount(gold):
            return True
        if (amounts := _amounts(gold, answer)) is not None:
            return amounts[0] == amounts[1]
        expected, given = read_statement(gold), read_statement(answer)
        if expected is None or given is None:
            return False
        if expected.others and not self._are_constant(expected.others):
            return self.same_expression(gold, answer)  # an equation
        if self._same_statement(expected, given):
            return True
        return bool(expected.name and (given.name or given.others)) and self.same_expression(gold, answer)

    def _are_constant(self, sides: Sequence[str]) -> bool:
        """Whether all sides are numbers or other constants."""
        try:
            return not any(has_symbol(read_value(read_quantity(side).value)) for side in sides)
        except UnreadableError:
            return False

    def _same_statement(self, gold: Statement, answer: Statement) -> bool:
        """Compare values; whatever the answer says is equal to its own must be: neither 41 = 42 nor 2x = 42 is 42."""
        if gold.name and answer.name and gold.name != answer.name:
            return False
        expected = read_quantity(gold.value, any_unit=True)
        given = _with_unit_of(expected, answer.value)
        if self._same_quantity(expected, given) or (
            expected.unit and given.value != expected.value and self._same_without_unit(gold.value, answer.value)
        ):
            return all(self._agrees(given, side) for side in answer.others)
        before = _with_unit_of(expected, answer.others[-1]) if answer.others else None
        if before is None or not _is_rounding(before, given):
            return False  # 5/36 = 0.139
        return self._same_quantity(expected, before) and all(self._agrees(before, side) for side in answer.others[:-1])

    def _agrees(self, value: Quantity, side: str) -> bool:
        """Whether another side is equal to a value, identically, or a rounding of it, or of another unit."""
        other = read_quantity(side)
        if _is_rounding(other, value) or _is_rounding(value, other):
            return True
        expected, given = read_number(value.value), read_number(other.value)
        if other.is_percent != value.is_percent:
            candidates = _percent_readings(expected[0], value.is_percent, other.is_percent) if expected else []
            return given is not None and any(self.tolerance.accepts(number, given[0]) for number in candidates)
        if other.unit and value.unit and other.unit != value.unit:
            return given is not None  # 1.5 hours = 90 minutes
        try:
            return same_tree(read_value(value.value), read_value(other.value), self.tolerance, self.budget)
        except UnreadableError:
            return False

    def _same_without_unit(self, gold: str, answer: str) -> bool:
        r"""Whether letters that could be a unit are variables on both sides: ``3 m`` is ``m \cdot 3``."""
        try:
            if not (has_symbol(read_value(gold)) and has_symbol(read_value(answer))):
                return False
        except UnreadableError:
            return False
        return read_quantity(answer).unit == "" and self.same_expression(gold, answer)

    def _same_quantity(self, gold: Quantity, answer: Quantity) -> bool:
        if gold.unit.startswith("base "):
            is_base = answer.unit in ("", gold.unit) and not answer.is_percent
            return is_base and gold.value.lstrip("0") == answer.value.lstrip("0").replace(" ", "")
        if not may_be_one(gold.unit, answer.unit):
            return False
        if answer.unit.startswith("base ") and answer.unit != "base 10":
            return False  # 101_2 is no 101
        if (gold.unit and answer.is_percent) or (gold.is_percent and answer.unit):
            return False
        expected, given = read_number(gold.value), read_number(answer.value)
        if expected is None or given is None:
            return gold.is_percent == answer.is_percent and self.same_expression(gold.value, answer.value)
        if self.simplified and is_quotient(answer.value, given[0]) and not is_quotient(gold.value, expected[0]):
            return False
        tolerance = self.tolerance if expected[1] or given[1] else EXACT
        candidates = _percent_readings(expected[0], gold.is_percent, answer.is_percent)
        return any(tolerance.accepts(candidate, given[0]) for candidate in candidates)

    def same_expression(self, gold: str, answer: str) -> bool:
        """Compare two expressions, equations or inequalities of variables."""
        try:
            expected, given = read_value(gold), read_value(answer)
        except UnreadableError:
            return False
        given = _with_constant_of(expected, given)
        if self.simplified and not is_worked_out(expected, given):
            return False
        return same_tree(expected, given, self.tolerance, self.budget)


def read_value(text: str) -> Tree:
    """Read a number or an expression.

    Raises:
        UnreadableError: it is neither.
    """
    number = read_number(text)  # 2.88e16 is no product
    return read(text) if number is None or is_quotient(text, number[0]) else ("number", *number)


def same_tree(gold: Tree, answer: Tree, tolerance: Tolerance, budget: CpuBudget) -> bool:
    """Compare trees; an answer that makes the computation raise, or that spends the budget, is different.

    Taken as a failed grade, such answers would leave the pool of a prompt, and a policy could learn to write them
    where it would be wrong.
    """
    try:
        return are_equal(gold, answer, tolerance, budget)
    except (MemoryError, ImportError):  # no answer is at fault
        raise
    except (Exception, CpuBudgetError):
        return False


def _is_amount(text: str) -> bool:
    """Whether it is a number with a known unit, whose case counts: 5 mPa is no 5 MPa."""
    quantity = read_quantity(text)
    return bool(quantity.unit) and read_number(quantity.value) is not None


def _amounts(gold: str, answer: str) -> tuple[Fraction, Fraction | None] | None:
    """Amounts in the smallest unit where one side has several units; None where neither has."""
    compounds = read_compound(gold), read_compound(answer)
    if compounds[0] is None and compounds[1] is None:
        return None
    if compounds[0] is not None and compounds[1] is not None:
        return compounds[0][1], compounds[1][1] if compounds[0][0] == compounds[1][0] else None
    family, amount = compounds[0] or compounds[1] or (0, Fraction(0))
    statement = read_statement(answer if compounds[0] is not None else gold)
    single = read_quantity(statement.value if statement is not None else "", any_unit=True)
    number = read_number(single.value)
    return amount, None if number is None else in_family(family, number[0], single.unit)


def _is_rounding(exact: Quantity, rounded: Quantity) -> bool:
    """Whether a decimal is the other constant to its last digit, with two digits that count or more."""
    found = read_number(rounded.value)
    digits = re.sub(r"[^0-9]", "", rounded.value.partition(".")[2])
    if found is None or not found[1] or "e" in rounded.value.lower() or len(rounded.value.strip("-0.")) < 2:
        return False
    try:
        value = decimal_value(read_value(exact.value))
    except UnreadableError:
        return False
    scale = 100 if rounded.is_percent and not exact.is_percent else 1
    return value is not None and abs(value * scale - found[0]) <= Fraction(51, 100) / 10 ** len(digits)


def _with_unit_of(gold: Quantity, text: str) -> Quantity:
    """Read an answer whose unit is a known one or the gold's."""
    found = read_quantity(text)
    if gold.unit and not found.unit and not found.is_percent:
        named = read_quantity(text, any_unit=True)
        return named if named.unit == gold.unit else found
    return found


def _with_constant_of(gold: Tree, answer: Tree) -> Tree:
    """Call the constant of an integral as the gold does: ``x^2+c`` is ``x^2+C``."""
    names = [_constant_of(tree) for tree in (gold, answer)]
    if "" in names or names[0] == names[1] or names[0] in symbols(answer):
        return answer
    return renamed(answer, {names[1]: names[0]})


def _constant_of(tree: Tree) -> str:
    """The name of a term that is one symbol, occurs once and is called as constants are; empty where there is none."""
    if tree[0] == "relation" and tree[1] == "=":
        tree = tree[3]
    terms = [part[1] for part in tree[1:] if part[0] == "symbol"] if tree[0] == "add" else []
    names = [name for name in terms if name in _CONSTANTS]
    others = (
        [part for part in tree[1:] if isinstance(part, tuple) and part[:2] != ("symbol", names[0])] if names else []
    )
    return names[0] if len(names) == 1 and not any(names[0] in symbols(part) for part in others) else ""


def _percent_readings(gold: Fraction, gold_is_percent: bool, answer_is_percent: bool) -> list[Fraction]:
    """What number the answer may show, without its sign, for a gold of so many (per cent)."""
    if gold_is_percent == answer_is_percent:
        return [gold]
    if gold_is_percent:
        return [gold, gold / 100]
    return [gold * 100, gold] if abs(gold) > 1 else [gold * 100]
