r"""One way of writing: what LaTeX and Unicode write in many ways becomes the same text. Nothing is evaluated."""

from __future__ import annotations

import re

_VULGAR = {
    "\u00bc": "14", "\u00bd": "12", "\u00be": "34", "\u2153": "13", "\u2154": "23", "\u2155": "15",
    "\u2156": "25", "\u2157": "35", "\u2158": "45", "\u2159": "16", "\u215a": "56", "\u215b": "18",
    "\u215c": "38", "\u215d": "58", "\u215e": "78",
}  # fmt: skip
"""Fractions of one character: top and bottom."""
_RAISED = str.maketrans(
    "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b\u207f", "0123456789+-n"
)
_LOWERED = str.maketrans("\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089", "0123456789")
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_CHARACTERS = str.maketrans(
    {
        "\u2212": "-",
        "\u2013": "-",
        "\ufe63": "-",
        "\u00a0": " ",
        "\u2009": " ",
        "\u202f": " ",
        "\u00d7": r"\times ",
        "\u00b7": r"\cdot ",
        "\u22c5": r"\cdot ",
        "\u00f7": r"\div ",
        "\u221e": r"\infty ",
        "\u221a": r"\sqrt ",
        "\u03c0": r"\pi ",
        "\u2264": r"\le ",
        "\u2265": r"\ge ",
        "\u2260": r"\ne ",
        "\u00b1": r"\pm ",
        "\u00b0": r"^\circ ",
        "\u222a": r"\cup ",
        "\u2208": r"\in ",
        "\u2205": r"\emptyset ",
        "\u2044": "/",
        "\u2215": "/",
        "\u2019": "'",
    }
    | {sign: rf"\frac{{{ratio[0]}}}{{{ratio[1]}}}" for sign, ratio in _VULGAR.items()}
    | _FULL_WIDTH
)
_GROUP = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"  # braces in it nest once or twice
_REPLACEMENTS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"^(\*\*|__|\*|_|`)(?![*_`])(.+)(?<![*_`])\1$", r"\2"),  # Markdown
        (r"\\\\\s*\[\s*-?[0-9.]+\s*(?:pt|ex|em|mm|cm|in)\s*\]", r"\\\\"),  # room between rows
        (r"\\(?:textcolor|colorbox)\s*\{[a-zA-Z!0-9]*\}\s*" + _GROUP, r"\1"),
        (r"\\color\s*\{[a-zA-Z!0-9]*\}|\\color\s+[a-z]+(?![a-z])", ""),
        (r"\\(?:underline|uline|fbox|framebox|boldsymbol|bm|bold|emph|mathsf|mathtt|texttt)\s*" + _GROUP, r"\1"),
        ("[" + "".join(map(chr, _RAISED)) + "]+", lambda found: "^{" + found[0].translate(_RAISED) + "}"),
        ("[" + "".join(map(chr, _LOWERED)) + "]+", lambda found: "_{" + found[0].translate(_LOWERED) + "}"),
        (r"\\sqrt ([0-9]+)(?![0-9{])", r"\\sqrt{\1}"),
        (r"\\not\s*(?:=|\\eq(?![a-zA-Z]))", r"\\ne "),
        (r"^\s*=(?![=<>])", ""),
        (r"(?<=\s)~=(?!~)", r"\\sim "),  # x~=~5 has spaces
        (r"(?<![=<>!~:/\\]):?==?(?![=<>!~/])", "="),
        (r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|nolimits)(?![a-zA-Z])\.?", ""),
        (r"\\lbrace(?![a-zA-Z])", r"\\{"),
        (r"\\rbrace(?![a-zA-Z])", r"\\}"),
        (r"\\lbrack(?![a-zA-Z])", "["),
        (r"\\rbrack(?![a-zA-Z])", "]"),
        (r"\\(?:[lr]?vert|mid)(?![a-zA-Z])", "|"),
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\[dt]binom(?![a-zA-Z])", r"\\binom"),
        (r"\\mathrm\s*\{\s*([ei])\s*\}", r"\1"),
        (r"\\(?:textbf|textit|textrm|textnormal|mathrm|mathbf|mathit|mbox|rm|bf)\s*\{", r"\\text{"),
        (r"^\\text\s*\{((?:[-+0-9.,/:\s]|\b(?:and|or)\b)+)\}$", r"\1"),
        (r"\\text\s*\{\s*(-?[0-9][0-9.,/]*)\s*\}", r"\1"),
        (r"^\\text\s*\{\s*(-?[0-9][0-9.,/]*)\s+([A-Za-z][^{}]*)\}$", r"\1\\text{ \2}"),
        (r"(?<=[0-9])\s*\^?\s*\{?\s*\\text\s*\{\s*(?:st|nd|rd|th)\s*\}(?:\s*\})?$", ""),
        (r"^([0-9]+)\s*\^\s*\{\s*(?:st|nd|rd|th)\s*\}$", r"\1"),
        (
            r"^([A-Za-z]\s*=)?\s*[(\[]\s*\\begin\{array\}\s*\{[clr\s]*\}(.*)\\end\{array\}\s*[)\]]$",
            r"\1\\begin{pmatrix}\2\\end{pmatrix}",
        ),
        (r"\\leqs?lant(?![a-zA-Z])|\\leq(?![a-zA-Z])|<=", r"\\le "),
        (r"\\geqs?lant(?![a-zA-Z])|\\geq(?![a-zA-Z])|>=", r"\\ge "),
        (r"\\neq(?![a-zA-Z])|!=", r"\\ne "),
        (r"\\lt(?![a-zA-Z])", "<"),
        (r"\\gt(?![a-zA-Z])", ">"),
        (r"\\varnothing(?![a-zA-Z])", r"\\emptyset "),
        (r"\\degree(?![a-zA-Z])|\^\s*\{\s*\\circ\s*\}|\^\s*\\circ(?![a-zA-Z])", r"^\\circ "),
        (r"\\mathbb\s*R(?![a-zA-Z])|\\R(?:eals)?(?![a-zA-Z])|\u211d", r"\\mathbb{R}"),
        (r"\{,\}", ","),
        (r"(?<!\\)\\!", ""),
        (r"(?<=[0-9])\\[,; ](?=[0-9]{3}(?![0-9]))", ""),
        (r"(?<!\\)\\(?:[,;: ]|qq?uad(?![a-zA-Z]))|~", " "),
        (r"\\%", "%"),
        (r"\\\$", "$"),
        (r"\\frac\s*([0-9])\s*([0-9])", r"\\frac{\1}{\2}"),
        (r"\\frac\s*([0-9])\s*\{", r"\\frac{\1}{"),
        (r"\\(sqrt)\s*([0-9a-zA-Z])", r"\\\1{\2}"),
        (r"(?<![\\a-zA-Z])(?:infinity|inf)(?![a-zA-Z])", r"\\infty "),
        (r"(?<![\\a-zA-Z])(pi|sqrt|sin|cos|tan|ln|log|exp)(?![a-zA-Z])", r"\\\1 "),
        (r"\*\*", "^"),
        (r"\*", r"\\cdot "),
        (r"\s+", " "),
        (r"(?<![0-9.,/] )(?<![0-9.,/])[0-9]{1,3}(?: [0-9]{3})+(?! ?[0-9/])", lambda found: found[0].replace(" ", "")),
    )
]
_LAST_POINT = re.compile(r"(?<![.,;\\])[.,;]$")  # 0.33... is no 0.33
_WRAPPERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
_OPENING = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil"}
_CLOSING = frozenset(_OPENING.values())
_PIECE = re.compile(r"\\(?:[a-zA-Z]+|.)|.", re.DOTALL)


def tidy(text: str) -> str:
    r"""Write an answer in one way.

    Math delimiters around the whole, a full stop or comma at its end, ``\left`` and ``\right``, spacing commands
    and the variants of ``\frac``, ``\le``, ``\text`` are unified; Unicode signs and full-width characters become
    LaTeX and ASCII. Other characters beyond ASCII stay, so a look-alike letter stays a different letter.

    Example:
        >>> tidy(r"$\left( \dfrac12,\, 3 \right)$.")
        '( \\frac{1}{2}, 3 )'
    """
    text = text.strip().translate(_CHARACTERS)
    for _ in range(3):  # $\(12.\)$. and the like
        text = _unwrap(_LAST_POINT.sub("", text).strip())
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    text = text.strip()
    while (found := enclosed(text)) is not None and found[0] + found[2] == "{}":
        text = found[1]
    return text


def _unwrap(text: str) -> str:
    for left, right in _WRAPPERS:
        if len(text) > len(left) + len(right) and text.startswith(left) and text.endswith(right):
            inner = text[len(left) : -len(right)]
            if left not in inner:  # "$2$ or $3$" has two pairs, and no wrapper
                return inner.strip()
    return text


def depth(text: str) -> int:
    """How deep brackets of any kind nest, escaped or not.

    Example:
        >>> depth("((1)+{2})")
        2
    """
    deepest = level = 0
    for character in text:
        level = max(level + (character in "([{") - (character in ")]}"), 0)
        deepest = max(deepest, level)
    return deepest


def split(text: str, separators: frozenset[str]) -> list[str]:
    r"""Cut tidy LaTeX at separators outside of all brackets: single characters, or commands such as ``\cup``.

    Example:
        >>> split(r"(1,2),\frac{1}{2}", frozenset(","))
        ['(1,2)', '\\frac{1}{2}']
    """
    parts = [""]
    level = 0
    for piece in _PIECE.findall(text):
        level += (piece in _OPENING) - (piece in _CLOSING)
        if level == 0 and piece in separators:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts]


def enclosed(text: str) -> tuple[str, str, str] | None:
    r"""Take off the brackets that enclose a whole text, of one kind or of two as in half-open intervals.

    Returns:
        ``(opening, content, closing)``; None where the first bracket closes before the end.

    Example:
        >>> enclosed("(1,2]"), enclosed("(1)(2)")
        (('(', '1,2', ']'), None)
    """
    pieces = _PIECE.findall(text)
    if len(pieces) < 2 or pieces[0] not in ("(", "[", "{", "\\{") or pieces[-1] not in (")", "]", "}", "\\}"):
        return None
    level = 0
    for piece in pieces[:-1]:
        level += (piece in _OPENING) - (piece in _CLOSING)
        if level <= 0:
            return None
    return pieces[0], "".join(pieces[1:-1]).strip(), pieces[-1]
