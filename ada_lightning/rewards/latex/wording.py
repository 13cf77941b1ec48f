"""Answers in words, of any script, with or without numbers: what is compared of them, and what is no mathematics."""

from __future__ import annotations

import re
import unicodedata

from ada_lightning.rewards.latex.text import tidy

CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_LETTER = r"[^\W\d_]"
_WORDS = re.compile(rf"(?:\\text\s*\{{[^{{}}0-9]*\}}|{_LETTER}|[\s.,;:'\"!?()&-])+")
_LONG_WORD = re.compile(rf"(?<![\\a-zA-Z]){_LETTER}{{3,}}|[{CJK}]")
_ORDINAL = re.compile(r"(?<=[0-9])\s*(?:\^\s*\{?\s*)?(?:st|nd|rd|th)\b\s*\}?")
_ROMAN = re.compile(r"(?:I{1,3}|IV|VI{0,3}|IX|XI{0,3})")
_ABBREVIATION = re.compile(r"(?:[A-Z]\.\s?)+[A-Z]\.?")
_PRODUCT = re.compile(r"(?![A-Z]+$)[b-df-hj-np-tv-xzA-Z]{3,5}|abcd?e?|bcd|xyzw?|wxyz")
_CODE = re.compile(r"(?:[A-Za-z]+[0-9]+\s+\w+|\w+\s+[A-Za-z]+[0-9]+|(?:the\s+)?[0-9]{4}s|[0-9]{4}-[0-9]{2}-[0-9]{2})")
_NOTHING = re.compile(
    r"(?:there (?:is|are) )?no (?:real |such |integer |valid |possible )?(?:solutions?|roots?|values?)(?: exists?)?"
    r"|(?:the )?empty set|\u65e0(?:\u5b9e\u6570)?\u89e3|\u7a7a\u96c6"
)


def words(text: str, *, fold: bool = True) -> str:
    r"""Words of a text answer: without ``\text``, punctuation at the ends, double spaces, and (``fold``) case.

    With ``fold`` neither quotation marks, an article before all, an ordinal's ending, nor the hyphen between words
    matter.

    Example:
        >>> words(r"\text{Yes, it is}."), words("The x-axis"), words("March 5th")
        ('yes, it is', 'x axis', 'march 5')
    """
    plain = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text) if r"\text" in text else text
    plain = " ".join(plain.split()).strip(" .,?();:\"'")
    plain = re.sub(rf"(?<={_LETTER}{{2}})!+$", "", plain)  # after a single letter it is a factorial
    if not fold:
        return plain
    plain = unicodedata.normalize("NFC", _ORDINAL.sub("", plain)).casefold().replace('"', "")
    plain = re.sub(rf"(?<={_LETTER})\s*-\s*(?={_LETTER})", " ", plain)
    plain = re.sub(r"\s*([,;:])\s*", r"\1 ", plain)
    plain = re.sub(r"\b(?:[^\W\d_]\.){2,}|\b(?:[^\W\d_]\.)+[^\W\d_]\b", lambda found: found[0].replace(".", ""), plain)
    return re.sub(r"^(?:the|an?)\s+(?=\w)", "", plain)


def is_words(text: str) -> bool:
    r"""Words: of three letters or more, of a script without capitals, inside of ``\text``; ``xy`` and ``mgh`` are none.

    Example:
        >>> [is_words(text) for text in ("no solution", r"\text{A}", "xy", "mgh", "(B)", "x+y")]
        [True, True, False, False, True, False]
    """
    if _WORDS.fullmatch(text) is None or _PRODUCT.fullmatch(text.strip(" .,?();")):
        return False
    plain = words(text)
    if plain.endswith("!"):
        return False
    return (
        r"\text" in text
        or plain == "no"
        or _ABBREVIATION.fullmatch(text.strip()) is not None
        or len(plain) == 1
        or re.search(rf"{_LETTER}{{3}}|[{CJK}]|[^\x00-\x7f]{{2}}", plain) is not None
    )


def is_prose(text: str) -> bool:
    r"""Whether there is a word in it, among numbers or formulas: ``Route 9``, ``\text{north of } A``.

    Example:
        >>> is_prose("Route 9"), is_prose(r"\int_0^1 x dx"), is_prose("3x+2")
        (True, False, False)
    """
    if _PRODUCT.fullmatch(text.strip(" .,?();")):
        return False
    plain = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text)
    is_code = _CODE.fullmatch(plain.strip()) is not None
    return (is_code or _LONG_WORD.search(re.sub(r"\\[a-zA-Z]+", " ", plain)) is not None) and r"\\" not in text


def is_nothing(text: str) -> bool:
    r"""Whether words say that there is no solution: the empty set.

    Example:
        >>> is_nothing(r"\text{No real solutions}"), is_nothing("no")
        (True, False)
    """
    return _NOTHING.fullmatch(words(text)) is not None


def word_list(text: str) -> tuple[list[str], str] | None:
    r"""Cut words at commas, ``and`` and ``or``.

    Returns:
        the parts, and ``or`` where they are alternatives, else ``and``; None for one part.

    Example:
        >>> word_list("red, green and blue"), word_list("no solution")
        ((['red', 'green', 'blue'], 'and'), None)
    """
    plain = words(text, fold=False)
    joint = "or" if re.search(r"(?<![A-Za-z])or(?![A-Za-z])|\u6216", plain) else "and"
    parts = re.split(
        rf"\s*[,;]\s*(?:(?:and|or)\s+)?|\s+(?:and|or|&)\s+|(?<=[{CJK}])(?:\u548c|\u4e0e|\u6216|\u53ca)(?=[{CJK}])",
        plain,
    )
    parts = [part for part in parts if part]
    return (parts, joint) if len(parts) > 1 else None


def is_roman(text: str) -> bool:
    """Whether it is a Roman numeral up to 13."""
    return _ROMAN.fullmatch(text.strip()) is not None


_WHERE = (
    r"(?:\\text\s*\{\s*,?\s*(?:where|for|with|for all|for any|for some|for every|for integers?)?\s*\}"
    r"|where|for(?: all| any| some)?|with)?"
)
_SET = (
    r"(?:\\in\s*(?:\\mathbb\s*\{?\s*[ZN]\s*\}?|\\mathbf\s*\{?\s*[ZN]\s*\}?|\\text\s*\{\s*[ZN]\s*\}|[ZN])"
    r"(?:\s*[_^]\s*(?:\{?\s*[+*0-9]+\s*\}?|\\ast))*"
    r"|(?:\\text\s*\{\s*)?(?:is |are )?(?:an |any )?integers?(?:\s*\})?)"
)
_QUANTIFIER = re.compile(
    rf"(?:\s*[,;]\s*|\s+|\s*\(\s*|(?=\\text)){_WHERE}\s*\(?\s*(?:\\forall\s*)?(?P<name>[a-z])\s*{_SET}\s*\)?\s*$"
)
_USUAL = frozenset("knm")


def same_variable(gold: str, answer: str) -> tuple[str, str]:
    r"""Take off what says that a variable is an integer, and call it in the answer as in the gold.

    Returns:
        both texts; as they were where the gold says no such thing.

    Example:
        >>> same_variable(r"2k\pi, k\in\mathbb{Z}", r"2n\pi, n \in Z")
        ('2k\\pi', '2k\\pi')
    """
    gold_text, answer_text = tidy(gold), tidy(answer)
    expected, given = _QUANTIFIER.search(gold_text), _QUANTIFIER.search(answer_text)
    if expected is None:
        return gold, answer
    name, gold_text = expected["name"], gold_text[: expected.start()]
    if given is not None:
        other, answer_text = given["name"], answer_text[: given.start()]
    else:
        free = [letter for letter in re.findall(r"(?<![\\a-zA-Z])[knm](?![a-zA-Z])", answer_text) if letter in _USUAL]
        other = free[0] if len(set(free)) == 1 else name
    if other != name and re.search(rf"(?<![\\a-zA-Z]){name}(?![a-zA-Z])", answer_text) is None:
        answer_text = re.sub(rf"(?<![\\a-zA-Z]){other}(?![a-zA-Z])", name, answer_text)
    return gold_text, answer_text
