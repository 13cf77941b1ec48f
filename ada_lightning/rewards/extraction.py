"""How a final answer is found in a response. Small picklable callables: text in, answer or None out.

None means "no answer there": every reward treats it as worth 0. Nothing here evaluates text. One that looks for more
than the answer has a method ``stating``, so that a reward can try whether a gold answer would be found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from ada_lightning.rewards.latex.quantity import read_number
from ada_lightning.rewards.latex.text import VULGAR, numerals, tidy

MINUS_SIGNS = str.maketrans({"\u2212": "-", "\u2013": "-", "\ufe63": "-", "\uff0d": "-"})
"""Characters that models write for a minus: the mathematical minus, the en dash, small and full-width hyphens."""

_SIGN = r"(?<![\w)\]}.])[-+]"
"""One after a digit, letter or closing bracket is an operator: 5-3."""
_CURRENCY = r"\\?[$\u20ac\u00a3\u00a5]"
_NUMBER = re.compile(
    rf"(?:{_SIGN}(?:{_CURRENCY})?)?"  # the minus of -$20 is the number's
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+|(?<![0-9.])(?=\.[0-9]))"
    r"(?:\.[0-9]+)?"
    r"(?:[eE][-+]?[0-9]{1,3}(?![0-9A-Za-z]))?"
)
_VULGAR = f"[{''.join(VULGAR)}]"
_WITH_VULGAR = re.compile(rf"{_NUMBER.pattern}(?:\s?{_VULGAR})?|(?:{_SIGN})?{_VULGAR}")
_FRACTION = rf"(?:{_SIGN})?\\[dt]?frac\s*\{{-?[0-9]{{1,40}}\}}\s*\{{[0-9]{{1,40}}\}}"
_PER_CENT = r"(?:\s?\\?%|\s(?:per ?cent)\b)?"
_RECURRING = rf"(?:{_SIGN})?[0-9]*\.[0-9]*\\(?:overline|bar)\s*\{{[0-9]{{1,40}}\}}"
_RATIO = r"\s?/\s?[0-9]{1,40}(?![0-9]|\.[0-9]|\s?/)"
_WHOLE = rf"(?:{_SIGN})?(?<![\w.^])[0-9]{{1,40}}"
_MIXED = rf"{_WHOLE}(?:\s*\\[dt]?frac\s*\{{[0-9]{{1,40}}\}}\s*\{{[0-9]{{1,40}}\}}|\s[0-9]{{1,40}}{_RATIO})"
_POWER = r"(?:\s*\\times\s*10)?\s?\^\s?(?:\{\s?[-+]?[0-9]{1,40}\s?\}|[-+]?[0-9]{1,40})"
_SCALE = (
    r"(?:(?:\s|-)?(?:hundred|thousand|million|billion|trillion|dozen|score|gross)\b(?!-)|[kK]\b"
    r"|(?:M|B|mn|bn|mln|\u4e07|\u5104|\u4ebf)\b)?"
)
"""Words that make another number: 12.5 million is no 12.5."""
_QUANTITY = re.compile(
    rf"(?:{_MIXED}|{_FRACTION}|{_RECURRING}|{_NUMBER.pattern}(?:{_RATIO}|{_POWER})?)(?:{_SCALE}){_PER_CENT}"
)
_SPELLINGS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\([dt]?)frac\s*([0-9])\s*([0-9])(?![0-9])", r"\\frac{\2}{\3}"),
        (r"(?<=[0-9])\s*(?:[xX\u00d7*]|\\cdot)\s*(?=10\s?\^)", r" \\times "),
        (r"(?<=[A-Za-z}])\s?\^\s?(?:\{[-+]?[0-9]{1,3}\}|[-+]?[0-9]{1,3})", ""),  # of a unit or a variable
    )
]
"""What is written in several ways, and the one that :data:`_QUANTITY` reads."""
_SEPARATOR = re.compile(r"(?<=[0-9])(?:\{,\}|,\\!|\\[,;!]|[\u00a0\u2009\u202f]|['\u2019]|\\?_)(?=[0-9]{3}(?![0-9]))")
"""Between groups of three digits, in place of a comma."""
_SPACED = re.compile(r"(?<![\w.,/])(?<![0-9] )[1-9][0-9]{0,2}(?: [0-9]{3})++(?! ?[0-9/])")
_BARE_NUMBER = r"[-+]?[0-9]++(?:,[0-9]++)*+(?:\.[0-9]++)?+(?!\s?[/^*]|\\?[A-Za-z])"
"""A number that nothing continues: of ``\\boxed 3/4`` the 3 alone would be an answer that nobody gave."""
_BOXED_EVENTS, _FRAMED_EVENTS = (
    re.compile(
        rf"(?P<opens>\\{{1,2}}(?:{names})\s*\{{)"
        rf"|\\{{1,2}}(?:{names})\s+(?P<bare>{_BARE_NUMBER}|[A-Za-z](?=[.$\n]|\Z))|\\.|[{{}}]",
        re.DOTALL,
    )
    for names in ("boxed", "fbox|framebox")
)
"""Two backslashes stand in texts that were escaped once too often."""
_MAX_NUMBER_CHARS = 100
"""Of one whose value is computed."""
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_ANSWER_LINE = re.compile(r"(?i)\banswer[*_]{0,3}\s?[:\uff1a]")


def with_commas(text: str) -> str:
    r"""Write commas between groups of three digits, whatever separates them.

    A space counts where one of the groups is 000, which is no number of its own: ``100 200`` may be two.

    Example:
        >>> with_commas(r"1'000, 1{,}000, 1_000, 25 000 and 100 200")
        '1,000, 1,000, 1,000, 25,000 and 100 200'
    """
    text = _SEPARATOR.sub(",", text)
    return _SPACED.sub(lambda found: found[0].replace(" ", ",") if " 000" in found[0] else found[0], text)


def without_vulgar(number: str) -> str:
    r"""Write a number that ends with a fraction of one character as a ratio; others stay as they are.

    Example:
        >>> without_vulgar("1\u00bd"), without_vulgar("-\u00be"), without_vulgar("12.0")
        ('3/2', '-3/4', '12.0')
    """
    ratio = VULGAR.get(number[-1:])
    if ratio is None or len(number) > _MAX_NUMBER_CHARS or not _WITH_VULGAR.fullmatch(number):
        return number
    whole = number[:-1].strip().replace(",", "")
    size = Fraction(whole.lstrip("-") or 0) + Fraction(int(ratio[0]), int(ratio[1:]))
    return str(-size if whole.startswith("-") else size)


class WholeResponse:
    """The whole response without surrounding white space; None where nothing is left.

    Example:
        >>> WholeResponse()("  12 ")
        '12'
    """

    def __call__(self, text: str) -> str | None:
        """Return the stripped text."""
        return text.strip() or None


class FirstLine:
    r"""The first line that holds more than white space, stripped; None where there is none.

    Example:
        >>> FirstLine()("\n 12 \nbecause 5 + 7")
        '12'
    """

    def __call__(self, text: str) -> str | None:
        """Return the first non-empty line."""
        return next((line.strip() for line in text.splitlines() if line.strip()), None)


class LastNumber:
    r"""The last decimal number of the text, in plain form; None where there is no digit.

    A number has an optional sign, digits that may be grouped in threes by commas, an optional fraction and an
    optional exponent of at most three digits. The result has no commas, no plus sign, and ``-`` for every minus.

    - A sign right after a digit, a letter or a closing bracket is an operator: ``5-3`` gives 3, ``= -3`` gives -3.
      So is a sign with white space after it: ``- 3`` gives 3.
    - A full stop counts only with a digit after it: ``is 12.`` gives 12, ``12.0`` stays 12.0.
    - Commas that do not group in threes separate numbers: ``1,23`` gives 23. What stands for commas is read alike
      (:func:`with_commas`): ``1'000``, ``1{,}000``.
    - A fraction of one character belongs to its number: ``1\u00bd`` gives 3/2.
    - Units and digits inside words do not matter: ``$12``, ``12%``, ``12km`` and ``x12`` give 12.

    Example:
        >>> LastNumber()("5 - 1,009 = \u22121,004.")
        '-1004'
    """

    def __call__(self, text: str) -> str | None:
        """Return the last number."""
        numbers = _WITH_VULGAR.findall(with_commas(text.translate(MINUS_SIGNS)))
        return without_vulgar(_plain(numbers[-1])) if numbers else None


class LastQuantity:
    r"""The last number of the text with what belongs to its value; None where there is no digit.

    As :class:`LastNumber`, but a ratio (``3/4``, ``\frac{3}{4}``) is one number and not two. So are a mixed number (``2
    1/2``), one with a power (``3 \times 10^4``) and a recurring decimal (``0.1\overline{6}``). A per cent sign stays; a
    number behind the ``^`` of a unit or variable does not count. Raised digits and fractions of Unicode are
    read alike (``10\u00b2\u00b3``, ``1\u00bd``). For rewards that read such numbers.

    Example:
        >>> LastQuantity()("that is 3/4, or 75 %, of 1{,}000."), LastQuantity()("so 75\\%"), LastQuantity()("is 1/2.")
        ('1000', '75\\%', '1/2')
        >>> LastQuantity()("2 1/2 hours"), LastQuantity()(r"3 \times 10^4"), LastQuantity()("5 m^2")
        ('2 1/2', '3 \\times 10^4', '5')
    """

    def __call__(self, text: str) -> str | None:
        """Return the last number, ratio or percentage."""
        text = with_commas(numerals(text.translate(MINUS_SIGNS)))
        for pattern, spelling in _SPELLINGS:
            text = pattern.sub(spelling, text)
        found = _QUANTITY.findall(text)
        return _plain(found[-1]) if found else None


def _plain(number: str) -> str:
    """Leave out commas, a plus, and a currency behind the sign."""
    return re.sub(rf"^([-+]){_CURRENCY}", r"\1", number.replace(",", "")).lstrip("+")


class TaggedAnswer:
    r"""The content of the last closed ``<tag>...</tag>`` pair, stripped; None where no pair is closed or it is empty.

    Of several opening tags before the last closing one the nearest counts. Case matters. Where a ``\boxed{...}`` stands
    between them, its content is the answer.

    Args:
        tag: name between the angle brackets.

    Raises:
        ValueError: the name is not letters, digits, ``-`` and ``_``.

    Example:
        >>> TaggedAnswer(tag="answer")("<answer>11</answer> no, <answer> 12 </answer> <answer>")
        '12'
    """

    def __init__(self, tag: str = "answer") -> None:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", tag):
            raise ValueError(f"tag must be a name such as 'answer', without angle brackets; got {tag!r}")
        self.tag = tag
        self.mark = f"<{tag}>"

    def __call__(self, text: str) -> str | None:
        """Return what the last closed pair of tags holds."""
        before_close, close, _ = text.rpartition(f"</{self.tag}>")
        _, opened, content = before_close.rpartition(f"<{self.tag}>")
        return unboxed(content.strip()) or None if close and opened else None

    def stating(self, answer: str) -> str:
        """Return an answer between the tags."""
        return f"<{self.tag}>{answer}</{self.tag}>"


class LastBoxed:
    r"""The content of the last ``\boxed{...}`` that is closed and not empty, stripped; None where there is none.

    Last means opened last, so of nested boxes the inner one. A box that is never closed (a response cut by the length
    limit) is skipped. Braces escaped by a backslash do not count. ``\boxed 4`` and ``\\boxed{4}`` are boxes, too, and
    ``\fbox{4}`` is one where there is no other. One pass over the text, or two, whatever it holds.

    Args:
        several: which boxes count. ``last``: the last one. ``list``: all of the last paragraph that has one, as a list
            with commas, so that ``x=\boxed{3}`` or ``x=\boxed{4}`` answers 3, 4; equal texts or numbers count once. A
            paragraph ends at an empty line, so a box that a later paragraph corrects is none of them.

    Raises:
        ValueError: ``several`` is neither.

    Example:
        >>> LastBoxed()(r"first \boxed{1}, so \boxed{\frac{3}{4}}.")
        '\\frac{3}{4}'
        >>> LastBoxed(several="list")(r"$x=\boxed{3}$ or $x=\boxed{4}$")
        '3, 4'
    """

    mark = r"\boxed"

    def __init__(self, several: str = "last") -> None:
        if several not in ("last", "list"):
            raise ValueError(f"reward.reward.extraction.several must be last or list; got {several!r}")
        self.several = several

    def __call__(self, text: str) -> str | None:
        """Return what the last closed box holds, or the last ones."""
        boxes = sorted(_boxes(text, _BOXED_EVENTS)) or sorted(_boxes(text, _FRAMED_EVENTS))
        if not boxes:
            return None
        if self.several == "last":
            return boxes[-1][1]
        ends = [found.end() for found in _PARAGRAPH.finditer(text, 0, boxes[-1][0])]
        together = [content for start, content in boxes if start >= (ends[-1] if ends else 0)]
        found: dict[Fraction | str, str] = {}
        for content in together:
            found.setdefault(_number_or_text(content), content)
        return ", ".join(found.values())

    def stating(self, answer: str) -> str:
        """Return an answer in a box."""
        return rf"\boxed{{{answer}}}"


def _number_or_text(content: str) -> Fraction | str:
    number = read_number(tidy(content)) if len(content) <= _MAX_NUMBER_CHARS else None
    return content if number is None else number[0]


def _boxes(text: str, events: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yield where each closed box begins that holds no other one and is not empty, and what it holds."""
    open_braces: list[tuple[int, bool]] = []  # where what they hold begins, -1 of one that is no box; is it escaped?
    last_inner = -1
    for event in events.finditer(text):
        token = event.group()
        if token == "{":
            open_braces.append((-1, False))
        elif event["opens"]:
            open_braces.append((event.end(), token.startswith("\\\\")))
        elif event["bare"]:
            last_inner = event.start("bare")
            yield last_inner, event["bare"]
        elif token == "}" and open_braces:
            start, is_escaped = open_braces.pop()
            if start > last_inner:
                last_inner = start
                content = text[start : event.start()].strip()
                if content:
                    yield start, content.replace("\\\\", "\\") if is_escaped else content


class AnswerLine:
    r"""What stands behind the last ``Answer:``, to the end of its line or of the next one that holds text; else None.

    So do DAPO's prompts ask for the answer. Case and bold face do not matter: ``**Answer:** 42``. Where a box stands
    there, its content is the answer.

    Example:
        >>> AnswerLine()("5 + 7 is 12, and a quarter of it 3.\nAnswer: $\\frac{12}{4}$")
        '$\\frac{12}{4}$'
    """

    mark = "answer:"

    def __call__(self, text: str) -> str | None:
        """Return the last answer line's content."""
        ends = [found.end() for found in _ANSWER_LINE.finditer(text)]
        line = text[ends[-1] :].lstrip("*_ \t\r\n").partition("\n")[0] if ends else ""
        return unboxed(line.rstrip("*_ \t\r")) or None

    def stating(self, answer: str) -> str:
        """Return an answer line."""
        return f"Answer: {answer}"


class AfterThinking:
    r"""What another extraction finds behind the thinking: a box inside ``<think>...</think>`` is no answer.

    Behind the last ``</think>``, so it does not matter whether the response or the chat template opened the part. One
    that is opened later and never closed is left out as well.

    Args:
        extraction: finds the answer in the rest.
        is_opened: the chat template opens the thinking: without a ``</think>`` the whole response is thinking.

    Example:
        >>> find = AfterThinking(LastBoxed())
        >>> find(r"maybe \boxed{3}</think> It is \boxed{4}."), find(r"<think> maybe \boxed{3}"), find(r"\boxed{3}")
        ('4', None, '3')
    """

    def __init__(self, extraction: Callable[[str], str | None], *, is_opened: bool = False) -> None:
        self.extraction = extraction
        self.is_opened = is_opened

    def __call__(self, text: str) -> str | None:
        """Return what is found behind the thinking."""
        _, is_closed, rest = text.rpartition("</think>")
        if self.is_opened and not is_closed:
            return None
        return self.extraction(rest.partition("<think>")[0])

    def stating(self, answer: str) -> str:
        """Return an answer behind a thinking part."""
        return f"</think>{stating(self.extraction, answer)}"


class FirstOf:
    r"""What the first of several extractions finds, tried in their order; None where none finds anything.

    Args:
        extractions: at least one, the most trusted first.

    Raises:
        ValueError: there is none.

    Example:
        >>> find = FirstOf([LastBoxed(), LastNumber()])
        >>> find(r"\boxed{4}, not 5"), find("so it is 5")
        ('4', '5')
    """

    def __init__(self, extractions: Sequence[Callable[[str], str | None]]) -> None:
        if not extractions:
            raise ValueError("extractions must name at least one way to find an answer; got none")
        self.extractions = tuple(extractions)

    def __call__(self, text: str) -> str | None:
        """Return the first answer found."""
        return next((answer for find in self.extractions if (answer := find(text)) is not None), None)

    def stating(self, answer: str) -> str:
        """Return the text that states an answer to the most trusted one."""
        return stating(self.extractions[0], answer)


def stating(extraction: Callable[[str], str | None], answer: str) -> str:
    r"""Return a response that states an answer as plainly as can be, for an extraction to find.

    One that looks for more than the answer alone has a method ``stating(answer)``.

    Example:
        >>> stating(LastBoxed(), "72"), stating(LastNumber(), "72")
        ('\\boxed{72}', '72')
    """
    method: Callable[[str], str] | None = getattr(extraction, "stating", None)
    return answer if method is None else method(answer)


def unboxed(text: str) -> str:
    """Return what the last box of an answer holds; the answer where it has none."""
    return LastBoxed()(text) or text


def marks(extraction: Callable[[str], str | None]) -> tuple[str, ...]:
    r"""Return what a response must have for an extraction to find anything, in lower case: one of these; none: nothing.

    Example:
        >>> marks(LastBoxed()), marks(FirstOf([LastBoxed(), AnswerLine()])), marks(FirstOf([LastBoxed(), LastNumber()]))
        (('\\boxed',), ('\\boxed', 'answer:'), ())
    """
    if isinstance(extraction, AfterThinking):
        return marks(extraction.extraction)
    if isinstance(extraction, FirstOf):
        found = [marks(one) for one in extraction.extractions]
        return tuple(mark for one in found for mark in one) if all(found) else ()
    mark: str | None = getattr(extraction, "mark", None)
    return () if mark is None else (mark.lower(),)


_MARKS = ("#### ", "The answer is: ")
"""Of GSM8K and of MetaMathQA."""


def way_out(gold: str) -> str:
    r"""Name the setting that takes the answer out of a solution; empty where the gold answer is none.

    Example:
        >>> way_out("48 + 24 = 72 clips. #### 72")
        'it is a whole solution: \'data.source.answer_pattern="#### (.*)"\' takes the answer out of it'
    """
    mark = next((mark for mark in _MARKS if mark in gold), None)
    if mark is None:
        return ""
    return f"it is a whole solution: 'data.source.answer_pattern=\"{mark}(.*)\"' takes the answer out of it"
