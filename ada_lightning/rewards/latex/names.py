r"""What names a value: a variable, a segment, a function, a probability, or words. ``2x`` names nothing."""

from __future__ import annotations

import re

_SUBSCRIPT = r"(?:\s*_\s*(?:[A-Za-z0-9]|\\[a-zA-Z]+|\{(?:[^{}=<>]|\{[^{}=<>]*\})*\}))"
_RAISED = r"(?:\s*\^\s*(?:\*|\\(?:prime|circ|ast|star|top)(?![a-zA-Z])|\{\s*(?:-1|\*|\\prime|\([0-9n]\))\s*\}))"
_ARGUMENTS = r"(?:\s*(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\[[A-Za-z_0-9{}\\ ]+\]))"
_GREEK = (
    r"\\(?:alpha|beta|gamma|delta|(?:var)?epsilon|zeta|eta|(?:var)?theta|iota|kappa|lambda|mu|nu|xi|(?:var)?rho|"
    r"sigma|tau|upsilon|(?:var)?phi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Sigma|Upsilon|Phi|Psi|Omega|ell|hbar)"
    r"(?![a-zA-Z])"
)
_ACCENTED = (
    r"\\(?:overline|bar|vec|hat|tilde|dot|ddot|widehat|widetilde|overrightarrow|overset\{\\frown\}|mathbf|boldsymbol|"
    r"mathcal|mathbb|mathrm|operatorname|text)(?![a-zA-Z])\s*(?:\{[A-Za-z_0-9{}' \\]+\}|[A-Za-z])"
)
_SYMBOL = rf"(?:{_ACCENTED}|{_GREEK}|\\triangle\s*|[A-Za-z]|\\text\s*\{{[A-Za-z]+\}})"
_CALLED = (
    rf"(?:{_SYMBOL}{_SUBSCRIPT}?{_RAISED}?'*{_SUBSCRIPT}?(?:\s*\([^-+()]*\))?"
    rf"|(?:[f-hF-HPED]|{_GREEK}|{_ACCENTED}){_SUBSCRIPT}?{_RAISED}?'*{_ARGUMENTS})"  # x(x+1) is a product
)
_POINTS = (
    r"(?:\\(?:triangle|square|odot|overline|widehat)\s*)?"
    rf"\{{?\s*(?:[A-Z](?:_\{{?[0-9]\}}?|'+)?){{2,6}}\s*\}}?{_RAISED}?'*"
)
_ANGLE = rf"(?:m\s*)?\\(?:measured)?angle\s*(?:[A-Z]{{1,3}}|[A-Za-z0-9]{_SUBSCRIPT}?|{_GREEK}|\{{[A-Z]{{1,3}}\}})'*"
_LENGTH = r"(?:\|\s*{0}\s*\||\\\|\s*(?:{0}|[a-z])\s*\\\|)".format(
    rf"(?:{_ACCENTED}{_SUBSCRIPT}?|[A-Z]{{1,3}}(?:{_SUBSCRIPT}|'|[A-Z])*|[zw]{_SUBSCRIPT}?)"
)
_OF_AN_ANGLE = (
    r"\\?(?:sin|cos|tan|cot|sec|csc)(?![a-z])\s*(?:\^\s*\{?\s*[0-9]\s*\}?)?\s*"
    rf"(?:\(\s*)?(?:[0-9]\s*)?(?:{_ANGLE}|{_GREEK}|[A-Z]{{1,3}})(?:\s*\))?"
)
_BIG = (
    r"\\(?:sum|prod|int|iint|oint|lim|limsup|liminf|max|min|sup|inf|gcd|lcm|det|dim|deg|operatorname|Pr|arg|tr)(?![a-z])"
    r"[^=<>]*|(?:gcd|lcm|det|Var|Cov|rank|max|min)\s*\([^=<>]*\)"
)
_DERIVATIVE = r"\\frac\s*\{\s*(?:d|\\partial)\s*[A-Za-z]?\s*\}\s*\{\s*(?:d|\\partial)\s*[A-Za-z]\s*\}"
_AREA = r"\[\s*\\?(?:triangle)?\s*[A-Z]{3,6}\s*\]|\([A-Z]{3,6}\)"
_SEVERAL = rf"\(?\s*(?:[A-Za-z]|{_GREEK}){_SUBSCRIPT}?(?:\s*,\s*(?:[A-Za-z]|{_GREEK}){_SUBSCRIPT}?)+\s*\)?"
_LETTER = r"[^\W\d_]"
_TEXT = rf"\\text\s*\{{[^{{}}=<>0-9]*{_LETTER}[^{{}}=<>0-9]*\}}"
_WORDS = rf"(?:{_LETTER}{{3,}}|[\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af]{{1,12}})(?:['\s-]+{_LETTER}+)*(?:\s+[A-Z])?"
_NAME = re.compile(
    "|".join(
        (
            _CALLED, _POINTS, _ANGLE, _LENGTH, _OF_AN_ANGLE, _BIG, _DERIVATIVE, _AREA, _SEVERAL,
            rf"{_TEXT}(?:\s*(?:{_POINTS}|{_CALLED}|{_TEXT}))?", rf"(?:{_CALLED}|{_POINTS})\s*{_TEXT}", _WORDS,
        )
    )
)  # fmt: skip
_SHORT_WORDS = frozenset(("sum", "age", "gcd", "lcm", "hcf", "gcf", "max", "min", "avg", "sol", "ans", "tax", "cost"))
_CONSTANT = re.compile(r"[ei]|\\text\s*\{\s*[ei]\s*\}")


def is_name(text: str) -> bool:
    r"""Whether a side is a variable, a function of something, a segment, an angle, a probability, or words.

    Such a side may lack in an answer. Any other makes an equation: ``2x = 6`` does not state 6.

    Example:
        >>> [is_name(text) for text in ("x_{1}", "f(2)", "AB", r"\cos\theta", "P(X=2)", r"\text{Total cost}")]
        [True, True, True, True, True, True]
        >>> [is_name(text) for text in ("2x", "x+y", "x^2", "|x|", "xy", "12")]
        [False, False, False, False, False, False]
    """
    text = text.strip()
    if text.isascii() and text.isalpha() and text.islower() and len(text) > 1:
        return (len(text) > 3 and list(text) != sorted(set(text))) or text in _SHORT_WORDS  # abc and wxyz are products
    return _NAME.fullmatch(text) is not None and _CONSTANT.fullmatch(text) is None


def plain_name(text: str) -> str:
    """Write a name without spaces, braces and commands of type, so that two spellings of it agree; |AB| is AB."""
    text = re.sub(r"\\(?:text|mathrm|mathbf|operatorname|vec|overrightarrow|boldsymbol)(?![a-zA-Z])", "", text)
    text = re.sub(r"[\s{}]", "", text)
    return re.sub(r"^(?:\\overline|\|(?=[^|]*\|$))([A-Z]'?[A-Z]'?)\|?$", r"\1", text)
