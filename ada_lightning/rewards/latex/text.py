"""One way of writing: what LaTeX and Unicode write in many ways becomes the same text. Nothing is evaluated."""

from __future__ import annotations

import re

VULGAR = {
    "\u00bc": "14", "\u00bd": "12", "\u00be": "34", "\u2153": "13", "\u2154": "23", "\u2155": "15",
    "\u2156": "25", "\u2157": "35", "\u2158": "45", "\u2159": "16", "\u215a": "56", "\u215b": "18",
    "\u215c": "38", "\u215d": "58", "\u215e": "78", "\u2150": "17", "\u2151": "19", "\u2152": "110",
}  # fmt: skip
"""Fractions of one character: the digit of the top, then the bottom."""
_GREEK_NAMES = """
\u03b1 alpha \u03b2 beta \u03b3 gamma \u03b4 delta \u03b5 varepsilon \u03f5 epsilon \u03b6 zeta
\u03b7 eta \u03b8 theta \u03b9 iota \u03ba kappa \u03bb lambda \u03bc mu \u00b5 mu \u03bd nu \u03be xi
\u03c0 pi \u03c1 rho \u03c3 sigma \u03c4 tau \u03c5 upsilon \u03c6 varphi \u03d5 phi \u03c7 chi
\u03c8 psi \u03c9 omega \u0393 Gamma \u0394 Delta \u0398 Theta \u039b Lambda \u039e Xi \u03a0 Pi
\u03a3 Sigma \u03a6 Phi \u03a8 Psi \u03a9 Omega \u2126 Omega \u2113 ell \u210f hbar \u0127 hbar
""".split()  # noqa: SIM905 - pairs of a character and its name
_GREEK = dict(zip(_GREEK_NAMES[::2], _GREEK_NAMES[1::2], strict=True))
_RAISED = str.maketrans(
    "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b\u207f", "0123456789+-n"
)
_LOWERED = str.maketrans("\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089", "0123456789")
_RAISED_RUN = re.compile("[" + "".join(map(chr, _RAISED)) + "]+")
_LOWERED_RUN = re.compile("[" + "".join(map(chr, _LOWERED)) + "]+")
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_SIGNS = {
    "\u2212": "-", "\u2013": "-", "\ufe63": "-", "\u2010": "-", "\u2011": "-",
    "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u3000": " ", "\u2002": " ", "\u2003": " ",
    "\u00d7": r"\times ", "\u00b7": r"\cdot ", "\u22c5": r"\cdot ", "\u00f7": r"\div ", "\u2236": ":",
    "\u221e": r"\infty ", "\u221a": r"\sqrt ", "\u2264": r"\le ", "\u2265": r"\ge ", "\u2a7d": r"\le ",
    "\u2a7e": r"\ge ", "\u2266": r"\le ", "\u2267": r"\ge ", "\u2260": r"\ne ", "\u2248": r"\approx ",
    "\u2245": r"\approx ", "\u2250": r"\approx ", "\u2261": r"\equiv ", "\u00b1": r"\pm ", "\u2213": r"\mp ",
    "\u00b0": r"^\circ ", "\u00ba": r"^\circ ", "\u2103": r"^\circ C", "\u2109": r"^\circ F", "\u222a": r"\cup ",
    "\u2229": r"\cap ", "\u2208": r"\in ", "\u2205": r"\emptyset ", "\u2216": r"\setminus ", "\u2223": "|",
    "\u2211": r"\sum ", "\u222b": r"\int ", "\u220f": r"\prod ", "\u2220": r"\angle ", "\u25b3": r"\triangle ",
    "\u2227": r"\wedge ", "\u2228": r"\vee ", "\u2044": "/", "\u2215": "/", "\u2192": r"\to ", "\u2234": r"\therefore ",
    "\u2019": "'", "\u2018": "'", "\u2032": "'", "\u2033": "''", "\u201c": '"', "\u201d": '"', "\u27e8": "(",
    "\u27e9": ")", "\u3008": "(", "\u3009": ")", "\u3001": ",", "\u3002": ".", "\u2026": r"\ldots ",
    "\u22ef": r"\ldots ", "\u230a": r"\lfloor ", "\u230b": r"\rfloor ", "\u2308": r"\lceil ", "\u2309": r"\rceil ",
    "\u3010": "[", "\u3011": "]",
}  # fmt: skip
_FRACTIONS = {sign: rf"\frac{{{ratio[0]}}}{{{ratio[1:]}}}" for sign, ratio in VULGAR.items()}
_NUMERALS = str.maketrans(
    _FRACTIONS | {"\u2044": "/", "\u2215": "/", "\uff0e": ".", "\uff05": "%"} | {0xFF10 + n: str(n) for n in range(10)}
)
_CHARACTERS = str.maketrans(_SIGNS | _FRACTIONS | {sign: rf"\{name} " for sign, name in _GREEK.items()} | _FULL_WIDTH)


def as_latex(text: str) -> str:
    r"""Write signs, Greek letters, raised and lowered digits and full-width characters as LaTeX and ASCII.

    Letters of other scripts stay, so a look-alike letter stays a different letter.

    Example:
        >>> as_latex("2\u03c0r\u00b2 \u2264 \uff15")
        '2\\pi r^{2} \\le  5'
    """
    text = _unraised(text.translate(_CHARACTERS))
    return _LOWERED_RUN.sub(lambda found: "_{" + found[0].translate(_LOWERED) + "}", text)


def numerals(text: str) -> str:
    r"""Write the digits, powers and fractions of Unicode as LaTeX and ASCII, and leave everything else.

    Example:
        >>> numerals("10\u00b2\u00b3, 1\u00bd, 1\u20442")
        '10^{23}, 1\\frac{1}{2}, 1/2'
    """
    return _unraised(text.translate(_NUMERALS))


def _unraised(text: str) -> str:
    return _RAISED_RUN.sub(lambda found: "^{" + found[0].translate(_RAISED) + "}", text)


_GROUP = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"  # braces in it nest once or twice
_STYLES = (
    r"(?:bf|rm|it|sf|tt|em|sl|sc|cal|bfseries|itshape|tiny|scriptsize|footnotesize|small|normalsize|large|Large|LARGE|"
    r"huge|Huge|displaystyle|textstyle|scriptstyle|boldmath|mathstrut|strut|hfill|nonumber|notag|noindent|limits|"
    r"nolimits|left|right|[bB]igg?[lrm]?)"
)
_ANSWER_IS = (
    r"(?:(?:so|thus|hence|therefore|then),?\s+)?(?:the\s+)?(?:final\s+|correct\s+)?(?:answer|result|ans)"
    r"(?:\s+is\s*:|\s+is(?![a-z])|\s*:)|(?:\u6545|\u6240\u4ee5)?\u7b54\u6848?(?:\u662f|\u4e3a|\u70ba)?\s*:?(?=\s*[^\s\u3400-\u9fff])"
)
"""What may stand before an answer."""


_ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth",
)  # fmt: skip
_ORDINAL_WORD = rf"^(?i:\\text\s*\{{\s*(?:the\s+)?({'|'.join(_ORDINALS)})\s*\}}|(?:the\s+)?({'|'.join(_ORDINALS)}))$"


def _as_ordinal(found: re.Match[str]) -> str:
    return f"{_ORDINALS.index((found[1] or found[2]).lower()) + 1}"


def _as_list(found: re.Match[str]) -> str:
    """Write a system of equations in one line; the pieces of a function stay as they are."""
    rows = [row.strip() for row in found[1].split(r"\\")]
    return ", ".join(rows) if "&" not in found[1] and all("=" in row for row in rows) else found[0]


def _on_one_line(found: re.Match[str]) -> str:
    return found[2].replace("&", " ")


_REPLACEMENTS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\tag\s*\*?\s*\{[^{}]*\}|\\(?:label|vphantom|hphantom|hspace|vspace|phantom)\s*\*?\s*\{[^{}]*\}", " "),
        (
            r"\\begin\{(aligned|align\*?|equation\*?|gathered|gather\*?|split|displaymath|math|center)\}((?:(?!\\\\).)*)\\end\{\1\}",
            _on_one_line,
        ),
        (r"\\begin\{cases\}((?:(?!\\begin).)*?)(?:\\\\\s*)?\\end\{cases\}", _as_list),
        (r"(?:\\(?:checkmark|blacksquare|square|qed|Box)(?![a-zA-Z])|[\u2713\u2714\u2705])\s*$", ""),
        (r"\\(?:enspace|thinspace|medspace|thickspace|negthinspace)(?![a-zA-Z])", " "),
        (r"\\text\s*\{\s*\\text(?:bf|it|rm|tt|sf)?\s*\{([^{}]*)\}\s*\}", r"\\text{\1}"),
        (r"(?:\\\\|\\newline|\\par)\s*$", ""),
        (r"^\s*(?:\\(?:therefore|Rightarrow|implies|Longrightarrow|to|because)(?![a-zA-Z])\s*)+", ""),
        (r"\{\s*\\(?:rm|bf|it|sf|tt)\s+([A-Za-z][^{}\\]*)\}", r"\\text{\1}"),
        (rf"^(?i:\\text\s*\{{\s*(?:{_ANSWER_IS})\s*\}}|(?:{_ANSWER_IS}))\s*(?=\S)", ""),
        (rf"^(?i:\\text\s*\{{\s*(?:{_ANSWER_IS})\s*([^{{}}\s][^{{}}]*)\}})$", r"\\text{\1}"),
        (
            r"\\(?:operatorname|mathop|mathrm|text)\s*\*?\s*\{\s*(sin|cos|tan|cot|sec|csc|ln|log|exp|arcsin|arccos|arctan)\s*\}",
            r"\\\1 ",
        ),
        (r"\\(?:arc|a)(?:tg|tan)(?![a-z])", r"\\arctan "),
        (r"\\tg(?![a-z])", r"\\tan "),
        (r"\\ctg(?![a-z])", r"\\cot "),
        (r"\\lg(?![a-zA-Z])", r"\\log "),
        (r"\{((?:[^{}]|\{[^{}]*\})*)\\over(?![a-z])((?:[^{}]|\{[^{}]*\})*)\}", r"\\frac{\1}{\2}"),
        (r"^([^{}]*)\\over(?![a-z])([^{}]*)$", r"\\frac{\1}{\2}"),
        (r"(?<![A-Za-z\\])C\(\s*([0-9]+|[a-z])\s*,\s*([0-9]+|[a-z])\s*\)", r"\\binom{\1}{\2}"),
        (r"(?<![A-Za-z0-9)}])(?:\{\}\s*)?[_^]\s*\{?([0-9]+|[a-z])\}?\s*C_\s*\{?([0-9]+|[a-z])\}?", r"\\binom{\1}{\2}"),
        (r"\{([^{}]*)\\choose(?![a-z])([^{}]*)\}", r"\\binom{\1}{\2}"),
        (r"\\(?:display|text|script)style(?![a-zA-Z])", ""),
        (r"\\(?:simeq|thickapprox)(?![a-zA-Z])(?=\s*[-+]?[0-9.])", r"\\approx "),
        (r"\\dot\s*\{?([0-9])\}?([0-9]*)\\dot\s*\{?([0-9])\}?", r"\\overline{\1\2\3}"),
        (
            r"\\(?:math|text)(?:bf|it|rm)\s*(?=\{[^{}\\]*\\(?:[dtc]?frac\s*(?:\{\s*)?[-0-9\\]|sqrt|pi(?![a-zA-Z])))"
            + _GROUP,
            r"{\1}",
        ),
        (r"\\(?:langle|lparen)(?![a-zA-Z])", "("),
        (r"\\(?:rangle|rparen)(?![a-zA-Z])", ")"),
        (r"\\(?:[lr]?Vert)(?![a-zA-Z])", r"\\|"),
        (r"\\(?:colon|ratio)(?![a-zA-Z])", ":"),
        (r"\\(?:pounds|textsterling)(?![a-zA-Z])", "\u00a3"),
        (r"\\(?:euro|texteuro|EUR)(?![a-zA-Z])(?:\{\})?", "\u20ac"),
        (r"\\(?:yen|textyen)(?![a-zA-Z])", "\u00a5"),
        (r"\\(?:cents?|textcent)(?![a-zA-Z])", "\u00a2"),
        (r"\\text\s*\{\s*([%\u20ac\u00a3\u00a5\u20b9\u00a2]|\\%)\s*\}", r"\1"),
        (r"^\\text\s*\{\s*((?:\\?\$|[\u20ac\u00a3\u00a5\u20b9])\s*-?[0-9][0-9.,]*)\s*\}", r"\1"),
        (r"^(?:\\text\s*\{\s*)?(?:USD|US\s?\\?\$|U\.S\.\s?\\?\$)(?:\s*\})?\s*(?=[0-9])", "$"),
        (r"^(?:\\text\s*\{\s*)?(?:EUR)(?:\s*\})?\s*(?=[0-9])", "\u20ac"),
        (r"^(?:\\text\s*\{\s*)?(?:GBP)(?:\s*\})?\s*(?=[0-9])", "\u00a3"),
        (r"^(?:\\text\s*\{\s*)?(?:Rs\.?|INR)(?:\s*\})?\s*(?=[0-9])", "\u20b9"),
        (r"(?<=[0-9])(?:'|\\?_)(?=[0-9]{3}(?![0-9]))", ""),
        (r"(?<=[0-9]),\\!\s*(?=[0-9]{3}(?![0-9]))", ","),
        (r"(?<=[0-9])\s*[xX]\s*(?=10\s*\^)", r"\\times "),
        (r"(?<=[0-9])\s*(?:\\text\s*\{\s*to\s*\}|(?<=\s)to(?=\s))\s*(?=[0-9])", ":"),
        (r"^(\*\*\*|\*\*|__|\*|_|`)(?![*_`])(.+)(?<![*_`])\1$", r"\2"),  # Markdown
        (r"\\\\\s*\[\s*-?[0-9.]+\s*(?:pt|ex|em|mm|cm|in)\s*\]", r"\\\\"),  # room between rows
        (r"\\(?:textcolor|colorbox)\s*\{[a-zA-Z!0-9]*\}\s*" + _GROUP, r"\1"),
        (r"\\color\s*\{[a-zA-Z!0-9]*\}|\\color\s+[a-z]+(?![a-z])", ""),
        (r"\\(?:underline|uline|boxed|fbox|framebox|boldsymbol|bm|bold|emph|mathsf|mathtt|texttt)\s*" + _GROUP, r"\1"),
        (r"\\sqrt ([0-9]+)(?![0-9{])", r"\\sqrt{\1}"),
        (r"\\not\s*(?:=|\\eq(?![a-zA-Z]))", r"\\ne "),
        (r"^\s*=(?![=<>])", ""),
        (r"(?<=\s)~=(?!~)", r"\\sim "),  # x~=~5 has spaces
        (r"(?<![=<>!~:/\\]):?==?(?![=<>!~/])", "="),
        (
            rf"\\{_STYLES}(?![a-zA-Z])(?!\s*\{{)\.?|\\(?:left|right|[bB]igg?[lrm]?|[Ll]arge|LARGE|[hH]uge)(?![a-zA-Z])\.?",
            "",
        ),
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
        (r"\\sqrt\s*(\[[^\[\]]*\])?\s*([0-9a-zA-Z])", r"\\sqrt\1{\2}"),
        (r"(?<![\\a-zA-Z])(?:infinity|inf)(?![a-zA-Z])", r"\\infty "),
        (r"(?<![\\a-zA-Z])(pi|sqrt|sin|cos|tan|ln|log|exp)(?![a-zA-Z])", r"\\\1 "),
        (r"\*\*", "^"),
        (r"\*", r"\\cdot "),
        (_ORDINAL_WORD, _as_ordinal),
        (r"\s+", " "),
        (r"(?<![0-9.,/] )(?<![0-9.,/])[0-9]{1,3}(?: [0-9]{3})+(?! ?[0-9/])", lambda found: found[0].replace(" ", "")),
    )
]
_TEXT_WITH_BRACES = re.compile(r"\\text\s*\{(?:[^{}]|\{[^{}]*\})*\}")
_LAST_POINT = re.compile(r"(?<![.,;\\])[.,;]$")  # 0.33... is no 0.33
_WRAPPERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
_DOLLAR = re.compile(r"(?<!\\)\$\$?")
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
    text = _without_dollars(re.sub(r"\s+", " ", as_latex(text)).strip())  # or long white space costs much
    for _ in range(3):  # $\(12.\)$. and the like
        text = _unwrap(_LAST_POINT.sub("", text).strip())
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    text = _TEXT_WITH_BRACES.sub(lambda found: re.sub(r"(?<=\^)\{([^{}]*)\}", r"\1", found[0]), text.strip())
    while (found := enclosed(text)) is not None and found[0] + found[2] == "{}":
        text = found[1]
    return text


def _without_dollars(text: str) -> str:
    r"""Take off all dollars that come in pairs around formulas: ``$3$ or $4$``; in ``$5 and $10`` they are money."""
    text = re.sub(r"(?<!\\)\\[()]", " ", text) if text.count("\\(") > 1 else text
    marks = _DOLLAR.findall(text)
    return _DOLLAR.sub(" ", text).strip() if len(marks) % 2 == 0 and len(marks) > 1 else text


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
