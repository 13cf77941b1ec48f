"""Grades a number by its distance from the expected one."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from ada_lightning.core.options import Use, option, target_of, use
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.extraction import FirstOf, LastBoxed, LastQuantity, way_out
from ada_lightning.rewards.latex.clock import read_time
from ada_lightning.rewards.latex.cost import has_symbol, is_affordable, rational
from ada_lightning.rewards.latex.evaluated import num_open
from ada_lightning.rewards.latex.forms import is_another_form, num_tasks
from ada_lightning.rewards.latex.grammar import MAX_DEPTH, UnreadableError, read
from ada_lightning.rewards.latex.quantity import Quantity, is_quotient, read_number, read_quantity
from ada_lightning.rewards.latex.statement import read_statement
from ada_lightning.rewards.latex.symbolic import decimal_value
from ada_lightning.rewards.latex.text import depth, tidy

_MAX_CHARS = 500


def parse_quantity(text: str) -> Fraction | None:
    r"""Read a number exactly, without its unit; None for anything else. Nothing is evaluated as code.

    Decimals, exponents, ratios, mixed numbers, ``\frac``, ``3 \times 10^4``, per cent (50% is 1/2), units, currency and
    ``x = 5`` (the last side) are understood. What is still to be computed (``2+3``, ``84/2``, ``5!``) is no number, nor
    is one with words behind it that are no unit, of a base other than 10, or beyond 12,000 bits.

    Example:
        >>> parse_quantity(r"$2\frac{1}{2}\text{ cm}$"), parse_quantity("12.5%"), parse_quantity("2+3")
        (Fraction(5, 2), Fraction(1, 8), None)
    """
    numbers = _stated(text)
    return numbers[0] if numbers else None


def _stated(text: str, *, constants: bool = False) -> list[Fraction]:
    """The number that a text states, and others that it says are equal to it; none where it states no number.

    ``constants``: pi and other irrational constants that are worked out count as numbers, to forty digits.
    """
    if len(text) > _MAX_CHARS or depth(text) > MAX_DEPTH:
        return []
    statement = read_statement(tidy(text))
    if statement is None:
        return []
    quantity = read_quantity(statement.value)
    value = _number(quantity, is_open=False)
    if value is None and constants:
        value = _constant(quantity)
    if value is None:
        return []
    numbers = [value]
    for other in map(read_quantity, statement.others):
        number = _number(other, is_open=True)
        number = _constant(other) if number is None and constants else number
        if number is None:
            return []  # 2x = 6 is an equation
        numbers += [number] if other.unit == quantity.unit else []
    return numbers


def _number(quantity: Quantity, *, is_open: bool) -> Fraction | None:
    """The value of a quantity; ``is_open``: computed where it is an operation on numbers, such as 2+3."""
    if (quantity.unit.startswith("base ") and quantity.unit != "base 10") or read_time(quantity.value) is not None:
        return None
    found = read_number(quantity.value)
    if found is not None and (is_open or not is_quotient(quantity.value, found[0])):
        value: Fraction | None = found[0]
    else:
        try:
            tree = read(quantity.value)
        except UnreadableError:
            return None
        value = rational(tree) if (is_open or num_open(tree) == 0) and is_affordable(tree) else None
    return value / 100 if quantity.is_percent and value is not None else value


def _constant(quantity: Quantity) -> Fraction | None:
    r"""An irrational constant in which nothing is left to compute, such as ``2\pi``; no root of a square."""
    try:
        tree = read(quantity.value)
    except UnreadableError:
        return None
    return (
        decimal_value(tree) if not has_symbol(tree) and is_another_form(tree, tree) and num_tasks(tree) == 0 else None
    )


@option(
    "reward",
    "numeric",
    below="reward",
    defaults=["_pool"],
    extraction=Use(FirstOf, {"extractions": [{"_target_": target_of(LastBoxed)}, use(LastQuantity)]}),
    relative_tolerance=0.01,
)
class NumericReward:
    r"""A number close to the answer of the data set; fractions, powers of ten, per cent and units are understood.

    1.0 where the extracted number is close to ``reference["answer"]``, else 0.0. The option reads a box where there is
    one, else the last number, ratio or percentage.

    Close is ``|answer - gold| <= max(absolute_tolerance, relative_tolerance * |gold|)``, computed exactly. The answer
    must be a number (:func:`parse_quantity`) or a constant such as ``2\pi``, not a task: ``123+456`` is worth 0 for
    any gold. Units are ignored,
    whichever they are; words that are no unit make it another answer (``18 squared``). Per cent are hundredths on both
    sides: 50% equals 0.5 and not 50.

    Args:
        extraction: finds the answer in the response; see :mod:`ada_lightning.rewards.extraction`.
        relative_tolerance: part of the gold's absolute value; 0.01 accepts 99 to 101 for 100.
        absolute_tolerance: in the gold's unit; the larger of both counts.

    Raises:
        ValueError: a tolerance is negative or not finite.
    """

    answers_without_reference = True

    def __init__(
        self,
        extraction: Callable[[str], str | None],
        *,
        relative_tolerance: float = 0.0,
        absolute_tolerance: float = 0.0,
    ) -> None:
        tolerances = {"relative_tolerance": relative_tolerance, "absolute_tolerance": absolute_tolerance}
        for name, value in tolerances.items():
            if not 0 <= value < float("inf"):
                raise ValueError(f"reward.reward.{name} must be 0 or a positive number; got {value}")
        self.extraction = extraction
        self.relative_tolerance = relative_tolerance
        self.absolute_tolerance = absolute_tolerance

    def __call__(self, prompt: Prompt, completion: Completion) -> Verdict:
        """Grade one response. The verdict's answer is the number as an integer or a reduced ratio.

        Raises:
            KeyError: the prompt's reference holds no answer.
            ValueError: the prompt's answer is no number.
        """
        gold = self._gold(prompt)
        text = self.extraction(completion.text)
        numbers = [] if text is None else _stated(text, constants=True)
        if not numbers:
            return Verdict(0.0)
        # str(): a tolerance of 0.1 means one tenth, not the nearest binary number
        relative, absolute = Fraction(str(self.relative_tolerance)), Fraction(str(self.absolute_tolerance))
        is_close = all(abs(number - gold) <= max(absolute, relative * abs(gold)) for number in numbers)
        return Verdict(float(is_close), str(numbers[0]))

    def cache_key(self, completion: Completion) -> str | None:
        """Name what is judged: the text of the number."""
        return self.extraction(completion.text)

    def check_prompt(self, prompt: Prompt) -> None:
        """Find a gold answer that is no number.

        Raises:
            ValueError: it is missing or no number.
        """
        if "answer" not in prompt.reference:
            raise ValueError(f"its reference has no answer; it has: {', '.join(sorted(prompt.reference)) or 'nothing'}")
        self._gold(prompt)

    def _gold(self, prompt: Prompt) -> Fraction:
        text = str(prompt.reference["answer"])
        is_small = len(text) <= _MAX_CHARS and depth(text) <= MAX_DEPTH
        statement = read_statement(tidy(text)) if is_small else None
        gold = None if statement is None else _number(read_quantity(statement.value, any_unit=True), is_open=True)
        if gold is None:
            raise ValueError(
                f"its answer {text[:200]!r} is no number; "
                + (way_out(text) or "correct it, or grade it by ada_lightning.rewards.math.MathReward")
            )
        return gold
