r"""Grades a mathematical answer: equal in value, however it is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import ClassVar

from ada_lightning.core.options import option, target_of
from ada_lightning.core.records import Completion, Prompt, Verdict
from ada_lightning.rewards.extraction import AfterThinking, LastBoxed, way_out
from ada_lightning.rewards.latex.clock import read_time
from ada_lightning.rewards.latex.compare import same_answer, value_of
from ada_lightning.rewards.latex.grammar import MAX_DEPTH, UnreadableError, read
from ada_lightning.rewards.latex.quantity import is_quotient, read_number, read_quantity
from ada_lightning.rewards.latex.reals import as_intervals
from ada_lightning.rewards.latex.statement import letters, read_compound, read_statement
from ada_lightning.rewards.latex.structure import Answer, readings
from ada_lightning.rewards.latex.text import depth, split
from ada_lightning.rewards.latex.tolerance import Tolerance
from ada_lightning.rewards.latex.wording import is_prose, same_variable

_MAX_SHOWN_CHARS = 200
_AFTER_COMMA = re.compile(r"(?<=,)\s+")


@option(
    "reward",
    "math",
    below="reward",
    defaults=["_pool"],
    beside={"num_workers": 2},
    extraction={"_target_": target_of(LastBoxed)},
)
class MathReward:
    r"""Equality with the answer of the data set as mathematics: numbers, expressions, sets, matrices, words and more.

    1.0 where the extracted answer equals ``reference["answer"]``, else 0.0. Workers are two, of about 100 MB each.

    It compares from cheap to costly: text in one way of writing; numbers, exactly; parts of lists, sets, points,
    intervals, ratios and matrices; expressions. Expressions are read by our own grammar
    (:mod:`~ada_lightning.rewards.latex.grammar`). They are compared exactly, by 50 digits and more, or, with variables,
    at random points (:mod:`~ada_lightning.rewards.latex.symbolic`). Text of a model is never evaluated as code.

    - **Several boxes**: the last closed one counts, or all of the last paragraph with one
      (:class:`~ada_lightning.rewards.extraction.LastBoxed`, ``+reward.reward.extraction.several=list``). No box: 0.
    - **Decimals**: a number with a decimal point may differ by ``decimal_tolerance * min(1, |gold|)``: 0.333333 is 1/3,
      0.33 is not. Numbers without one compare exactly.
    - **Worked out** (``simplified``): where the gold is a number the answer is one: an integer, decimal, ratio (6/8 is
      3/4, but no integer is a ratio: not 84/2), mixed or recurring number, or a multiple of a power of ten. So the
      question copied as the answer is wrong: ``123+456``, ``5!``, ``2^{10}``, ``\sqrt{16}``, ``3 dozen``. Where the
      gold is another constant (``3\sqrt{2}``, ``9\pi``, ``1-\frac1e``), one that is as simple: ``\sqrt{18}`` and
      ``\frac{e-1}{e}``, not ``\sqrt{8}+\sqrt{2}``; where it is solved, a solution: ``x = 5``, not ``2x = 10``.
      Where it has variables otherwise, no others than those; there ``2x+x`` is still ``3x``, as the gold does not
      tell whether to expand or to factor.
    - **Units**, currency, degrees and the base of the gold may lack on one side; where both have one they must agree,
      and nothing is converted but amounts of two units: ``5 \text{ cm}`` = 5, and not ``5 \text{ m}``. Letters of a
      unit stand apart: ``6 m`` = 6, and ``6m`` is a product. What is counted is a unit, too: ``18 eggs`` = 18, and
      ``7 blue balls`` are no ``7 red balls``. Known are the words of :mod:`~ada_lightning.rewards.latex.unit` and
      :mod:`~ada_lightning.rewards.latex.unit`, and the gold's; others make another answer: ``18 squared``, ``18
      maybe nineteen``. Words for large numbers count: ``5 \text{ million}`` = 5000000.
    - **Per cent**: 50% = 0.5. Where one side has no sign it may also be meant: 50% = 50, as in the data set MATH and
      math-verify; except that for a gold of at most 1 without a sign 0.5% is not 0.5. Without any sign 50 is not 0.5.
    - **Several values**: without brackets or in braces they are unordered, unless names or units tell which is which
      (``x=1, y=2`` is no ``2, 1``); ``\pm`` stands for two. Points and intervals are ordered, their brackets must
      agree; a point may lack them where it can be no interval: ``2,1`` = (2,1), and not ``1,2`` = (1,2). Matrices
      compare cell by cell; a column is a point, too. ``2:3`` = ``4:6`` = 2/3.
    - **Equations**: only a name may lack, so ``2x = 6`` is no 6. ``x = 5`` = ``5 = x`` = 5 and ``(x,y) = (1,2)`` =
      (1,2) on either side; where both name something the names must agree, and so must all numbers that the answer
      says are equal (``41 = 42`` is none). ``x > 3`` is the interval beyond 3, ``x < 1`` or ``x > 3`` the union,
      however the set is written.
    - **Words**: of any script, with numbers or without, without case; lists of words have no order. A gold of one
      capital letter A-J is a choice: ``(B)``, ``b``, ``Option B``, ``B. 12``, without a second choice or thought
      (``B. Wait, it is C``); several are a set: ``AC`` = ``A, C``. ``10:30`` is a time, and no ratio, which people
      write reduced.
    - **Commas**: 1,000 is a thousand outside of brackets; in an answer it may also be a list where the gold is one.

    What would be costly to evaluate (``9^{9^{9^9}}``, powers and factorials beyond 12,000 bits, polynomials beyond
    degree 64, more than 400 parts, 0.4 seconds of computing) equals only what is written alike and is worth 0
    otherwise. A failed grade would be the other choice, but it takes a response out of its prompt's pool: a policy
    could learn to be ungradable where it is wrong. And a right answer to a gold that people wrote down is never of that
    size. For the same reason an answer that makes the computation raise is wrong, and so is one that runs twice into
    the pool's time limit.

    Args:
        extraction: finds the answer in the response: the last closed ``\boxed{}``; ``AnswerLine`` takes the last
            "Answer: ...", as DAPO's prompts ask; see :mod:`ada_lightning.rewards.extraction`.
        decimal_tolerance: of numbers with a decimal point, times ``min(1, |gold|)``; 0 compares them exactly.
        relative_tolerance: ``decimal_tolerance * |gold|`` at any size, as for physical constants.
        simplified: an answer must be worked out as far as the gold, see above; False takes any expression of equal
            value.
        max_answer_chars: an answer longer than this is right only where it is written exactly like the gold.
        own_spelling: the verdict's answer is always the response's own spelling: for votes that must not know the gold.
            False spells a right answer like the gold, so that votes for it add up however it is written.
        thinking: whether an answer in the thinking of a response counts. ``keep``: as any other. ``ignore``: only what
            stands behind the last ``</think>`` counts, and nothing in a ``<think>`` that is never closed. ``opened``:
            as ``ignore``, where the chat template opens the thinking: a response without ``</think>`` is all thinking.

    Raises:
        ValueError: a tolerance outside of [0, 0.1], no room for an answer, or no such way with thinking.
    """

    modules: ClassVar[tuple[str, ...]] = ("mpmath",)

    def __init__(
        self,
        extraction: Callable[[str], str | None] | None = None,
        *,
        decimal_tolerance: float = 1e-6,
        relative_tolerance: bool = False,
        simplified: bool = True,
        max_answer_chars: int = 1000,
        own_spelling: bool = False,
        thinking: str = "keep",
    ) -> None:
        if not 0 <= decimal_tolerance <= 0.1:
            raise ValueError(f"reward.reward.decimal_tolerance must be in [0, 0.1]; got {decimal_tolerance}")
        if not 1 <= max_answer_chars <= 10_000:
            raise ValueError(f"reward.reward.max_answer_chars must be 1 to 10,000; got {max_answer_chars}")
        if thinking not in ("keep", "ignore", "opened"):
            raise ValueError(f"reward.reward.thinking must be keep, ignore or opened; got {thinking!r}")
        self.thinking = thinking
        extraction = LastBoxed() if extraction is None else extraction
        is_all = thinking == "keep"
        self.extraction = extraction if is_all else AfterThinking(extraction, is_opened=thinking == "opened")
        self.tolerance = Tolerance(decimal_tolerance, is_relative=relative_tolerance)
        self.simplified = simplified
        self.max_answer_chars = max_answer_chars
        self.own_spelling = own_spelling

    @property
    def answers_without_reference(self) -> bool:
        """Whether the verdict's answer is the response's own spelling."""
        return self.own_spelling

    def __call__(self, prompt: Prompt, completion: Completion) -> Verdict:
        """Grade one response. The verdict's answer is the gold's spelling where it is right, unless ``own_spelling``.

        Raises:
            KeyError: the prompt's reference holds no answer.
        """
        gold = _gold_text(prompt)
        answer = self.extraction(completion.text)
        if answer is None:
            return Verdict(0.0)
        if _AFTER_COMMA.sub("", answer.strip()) == _AFTER_COMMA.sub("", gold):
            return Verdict(1.0, self._told(gold, answer))
        if self._is_too_large(answer) or self._is_too_large(gold):
            return Verdict(0.0, self._own(answer))
        if same_answer(gold, answer, tolerance=self.tolerance, simplified=self.simplified):
            return Verdict(1.0, self._told(gold, answer))
        return Verdict(0.0, _spelling(answer))

    def cache_key(self, completion: Completion) -> str | None:
        """Name what is judged: the answer, however it was found."""
        return self.extraction(completion.text)

    def check_prompt(self, prompt: Prompt) -> None:
        """Find a gold answer that no response could equal but by its spelling.

        Raises:
            ValueError: it is missing or empty, or is neither words nor mathematics that can be read.
        """
        if "answer" not in prompt.reference:
            raise ValueError(f"its reference has no answer; it has: {', '.join(sorted(prompt.reference)) or 'nothing'}")
        gold = _gold_text(prompt)
        if not gold:
            raise ValueError("its answer is empty")
        shown = repr(gold[:_MAX_SHOWN_CHARS])
        if out := way_out(gold):
            raise ValueError(f"its answer {shown} cannot be found in a response: {out}")
        if self._is_too_large(gold):
            raise ValueError(
                f"its answer {shown} has {len(gold)} characters and brackets {depth(gold)} deep, more than "
                f"max_answer_chars = {self.max_answer_chars} or {MAX_DEPTH}; grade it by a function of your own"
            )
        expected = as_intervals(readings(same_variable(value_of(gold), "")[0])[0], is_gold=True)
        for value in _values(expected) if not letters(gold) else ():
            try:
                _check_value(value)
            except UnreadableError as error:
                raise ValueError(
                    f"its answer {shown} is neither words nor mathematics that MathReward reads ({error}); rewrite it, "
                    "or grade it by ExactMatchReward or a function of your own"
                ) from error

    def _told(self, gold: str, answer: str) -> str:
        return self._own(answer) if self.own_spelling else _spelling(gold, is_worked_out=False)

    def _own(self, answer: str) -> str:
        return answer.strip()[:_MAX_SHOWN_CHARS] if self._is_too_large(answer) else _spelling(answer)

    def _is_too_large(self, answer: str) -> bool:
        return len(answer) > self.max_answer_chars or depth(answer) > MAX_DEPTH


def _gold_text(prompt: Prompt) -> str:
    gold = str(prompt.reference["answer"]).strip()
    return LastBoxed()(gold) or gold


def _spelling(text: str, *, is_worked_out: bool = True) -> str:
    """One text for answers that are equal numbers or written alike; only a gold may be a division (``8/2``)."""
    reading = readings(text)[0]
    if not reading.items and reading.kind == "value":
        statement = read_statement(reading.text)
        quantity = read_quantity(statement.value if statement and len(statement.others) < 1 else reading.text)
        number = read_number(quantity.value)
        if number is not None and not (is_worked_out and is_quotient(quantity.value, number[0])):
            return str(number[0]) + ("%" if quantity.is_percent else "") + (quantity.unit and f" {quantity.unit}")
    return reading.key()[:_MAX_SHOWN_CHARS]


def _values(answer: Answer) -> Iterator[str]:
    if answer.items:
        for item in answer.items:
            yield from _values(item)
    elif answer.kind == "value" and answer.text:
        yield answer.text


def _check_value(text: str) -> None:
    if text == r"\ldots" or is_prose(text) or read_time(text) is not None or read_compound(text) is not None:
        return
    statement = read_statement(text)
    sides = (statement.value,) if statement is not None and not statement.others else split(text, frozenset("="))
    for side in sides:
        quantity = read_quantity(side, any_unit=True)
        if read_number(quantity.value) is None and not quantity.unit.startswith("base "):
            read(quantity.value)
