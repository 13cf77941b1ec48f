"""Grades a number by its distance from the expected one."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from ada_lightning.rewards.latex.cost import is_affordable, rational
from ada_lightning.rewards.latex.quantity import read_number, read_quantity
from ada_lightning.rewards.latex.text import depth, split, tidy
from ada_lightning.rewards.latex.tree import MAX_DEPTH, UnreadableError, read
from ada_lightning.types import Completion, Prompt, Verdict

_MAX_CHARS = 500


def parse_quantity(text: str) -> Fraction | None:
    r"""Read a number exactly, without its unit; None for anything else. Nothing is evaluated as code.

    Decimals, exponents, ratios, mixed numbers, ``\frac``, ``3 \times 10^4``, per cent (50% is 1/2), units, currency and
    ``x = 5`` (the last side) are understood. Numbers beyond 12,000 bits are not.

    Example:
        >>> parse_quantity(r"$2\frac{1}{2}\text{ cm}$"), parse_quantity("12.5%"), parse_quantity("about 5")
        (Fraction(5, 2), Fraction(1, 8), None)
    """
    if len(text) > _MAX_CHARS or depth(text) > MAX_DEPTH:
        return None
    quantity = read_quantity(split(tidy(text), frozenset("="))[-1])
    found = read_number(quantity.value)
    value = _computed(quantity.value) if found is None else found[0]
    return value / 100 if quantity.is_percent and value is not None else value


def _computed(text: str) -> Fraction | None:
    try:
        tree = read(text)
    except UnreadableError:
        return None
    return rational(tree) if is_affordable(tree) else None


class NumericReward:
    """1.0 where the extracted number is close to ``reference["answer"]``, else 0.0.

    Close is ``|answer - gold| <= max(absolute_tolerance, relative_tolerance * |gold|)``, computed exactly. Units are
    ignored. Per cent are hundredths on both sides: 50% equals 0.5 and not 50.

    Args:
        extraction: finds the answer in the response; see :mod:`ada_lightning.rewards.extraction`.
        relative_tolerance: part of the gold's absolute value; 0.01 is one per cent.
        absolute_tolerance: in the gold's unit.

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
        answer = None if text is None else parse_quantity(text)
        if answer is None:
            return Verdict(0.0)
        # str(): a tolerance of 0.1 means one tenth, not the nearest binary number
        relative, absolute = Fraction(str(self.relative_tolerance)), Fraction(str(self.absolute_tolerance))
        return Verdict(float(abs(answer - gold) <= max(absolute, relative * abs(gold))), str(answer))

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
        gold = parse_quantity(str(prompt.reference["answer"]))
        if gold is None:
            raise ValueError(
                f"its answer {str(prompt.reference['answer'])[:200]!r} is no number; correct it, or grade it by "
                "ada_lightning.rewards.math.MathReward"
            )
        return gold
