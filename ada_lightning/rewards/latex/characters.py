"""Characters beyond ASCII that stand for signs of mathematics, and their LaTeX."""

from __future__ import annotations

import re

_VULGAR = {
    "\u00bc": "14", "\u00bd": "12", "\u00be": "34", "\u2153": "13", "\u2154": "23", "\u2155": "15",
    "\u2156": "25", "\u2157": "35", "\u2158": "45", "\u2159": "16", "\u215a": "56", "\u215b": "18",
    "\u215c": "38", "\u215d": "58", "\u215e": "78",
}  # fmt: skip
"""Fractions of one character: top and bottom."""
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
_CHARACTERS = str.maketrans(
    _SIGNS
    | {sign: rf"\frac{{{ratio[0]}}}{{{ratio[1]}}}" for sign, ratio in _VULGAR.items()}
    | {sign: rf"\{name} " for sign, name in _GREEK.items()}
    | _FULL_WIDTH
)


def as_latex(text: str) -> str:
    r"""Write signs, Greek letters, raised and lowered digits and full-width characters as LaTeX and ASCII.

    Letters of other scripts stay, so a look-alike letter stays a different letter.

    Example:
        >>> as_latex("2\u03c0r\u00b2 \u2264 \uff15")
        '2\\pi r^{2} \\le  5'
    """
    text = text.translate(_CHARACTERS)
    text = _RAISED_RUN.sub(lambda found: "^{" + found[0].translate(_RAISED) + "}", text)
    return _LOWERED_RUN.sub(lambda found: "_{" + found[0].translate(_LOWERED) + "}", text)
