"""Grades an answer by comparing it with the one of the data set."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from ada_lightning.core.options import option, use
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.extraction import MINUS_SIGNS, LastNumber, stating, way_out, with_commas, without_vulgar

_DECIMAL = re.compile(r"[-+]?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")
_RATIO = re.compile(r"([-+]?[0-9]{1,200})\s*/\s*([0-9]{1,200})")
_WRAPPERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
_MAX_NUMBER_CHARS = 400


def parse_number(text: str) -> Fraction | None:
    """Read a decimal number or a ratio of two integers exactly; None for anything else. Nothing is evaluated.

    At most 400 characters and exponents of three digits, so that an absurd number costs nothing.

    Example:
        >>> parse_number("1,000.50"), parse_number("6/8"), parse_number("2+2")
        (Fraction(2001, 2), Fraction(3, 4), None)
    """
    if len(text) > _MAX_NUMBER_CHARS:
        return None
    text = without_vulgar(with_commas(text))
    if ratio := _RATIO.fullmatch(text):
        denominator = int(ratio[2])
        return Fraction(int(ratio[1]), denominator) if denominator else None
    return Fraction(Decimal(text.replace(",", ""))) if _DECIMAL.fullmatch(text) else None


def normalise(text: str) -> str:
    r"""Remove what does not belong to an answer.

    Surrounding white space, math delimiters around the whole (``$...$``, ``\(...\)``) and a full stop at the end,
    inside or outside of them, are removed. Runs of white space become one space, every kind of minus becomes ``-``,
    letters become lower case.

    Example:
        >>> normalise("  $New   York$. ")
        'new york'
    """
    text = text.strip().removesuffix(".").rstrip()
    for left, right in _WRAPPERS:
        if len(text) > len(left) + len(right) and text.startswith(left) and text.endswith(right):
            text = text[len(left) : -len(right)]
            break
    return " ".join(text.translate(MINUS_SIGNS).split()).removesuffix(".").rstrip().casefold()


def canonical(text: str) -> str:
    """Spell equal answers equally: an exact number as an integer or a reduced ratio, other text normalised.

    A ratio that is an integer stays as it is: a division that nobody has carried out would be its own answer.

    Example:
        >>> canonical("12.0"), canonical("$6/8$"), canonical("24/2"), canonical(" Paris. ")
        ('12', '3/4', '24/2', 'paris')
    """
    text = normalise(text)
    number = parse_number(text)
    return text if number is None or (number.denominator == 1 and "/" in text) else str(number)


@option("reward", "exact_match", below="reward", defaults=["_pool"], extraction=use(LastNumber))
class ExactMatchReward:
    """Equality with the answer of the data set, as numbers or as text.

    1.0 where the extracted answer equals ``reference["answer"]``, else 0.0.
    Both sides are normalised (:func:`normalise`). Where both are numbers (:func:`parse_number`) they compare as
    numbers, exactly: ``12`` = ``12.0``, ``3/4`` = ``6/8``; but a division such as ``24/2`` is no answer to 12.
    Otherwise they compare as text. The verdict's answer is what was compared (:func:`canonical`).

    Args:
        extraction: finds the answer in the response; see :mod:`ada_lightning.rewards.extraction`.
    """

    answers_without_reference = True

    def __init__(self, extraction: Callable[[str], str | None]) -> None:
        self.extraction = extraction

    def check_prompt(self, prompt: Prompt) -> None:
        """Look for the answer.

        Raises:
            ValueError: there is none, nothing is left of it when it is normalised, or the extraction does not find it
                in a response that states it plainly.
        """
        if "answer" not in prompt.reference:
            raise ValueError(f"its reference has no answer; it has: {', '.join(sorted(prompt.reference)) or 'nothing'}")
        answer = str(prompt.reference["answer"])
        if not normalise(answer):
            raise ValueError(f"its answer {prompt.reference['answer']!r} is empty when normalised")
        response = stating(self.extraction, answer)
        if self(prompt, Completion(response)).reward == 0:
            found = self.extraction(response)
            raise ValueError(
                f"a response {response[:200]!r}, its answer, would be worth 0, because "
                f"{type(self.extraction).__name__} finds {found and found[:200]!r} in it; "
                + (
                    way_out(answer)
                    or "take the part that counts with data.source.answer_pattern, name another "
                    "reward.reward.extraction, or use reward=math"
                )
            )

    def __call__(self, prompt: Prompt, completion: Completion) -> Verdict:
        """Grade one response.

        Raises:
            KeyError: the prompt's reference holds no answer.
        """
        gold = str(prompt.reference["answer"])
        extracted = self.extraction(completion.text)
        if extracted is None:
            return Verdict(0.0)
        answer = canonical(extracted)
        number = parse_number(normalise(gold))  # of a gold that is itself a division, too
        expected = {canonical(gold)} if number is None else {canonical(gold), str(number)}
        return Verdict(float(answer in expected), answer)
