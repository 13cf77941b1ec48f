r"""Matrices and columns as texts of cells: also as an array in brackets, with a number before them, transposed."""

from __future__ import annotations

import re
from fractions import Fraction

from ada_lightning.rewards.latex.cost import is_affordable, rational
from ada_lightning.rewards.latex.grammar import UnreadableError, read
from ada_lightning.rewards.latex.text import split

MATRIX = re.compile(r"\\begin\{(?:[pbB]?(?:small)?matrix|array)\}")
_WHOLE = re.compile(
    r"(?P<factor>[^&]*?)\s*(?:\\cdot|\\times)?\s*(?P<open>[(\[]?)\s*\\begin\{(?P<kind>[pbB]?(?:small)?matrix|array)\}\s*"
    r"(?:\{[clr|\s]*\})?(?P<cells>(?:(?!\\begin|\\end).)*)\\end\{(?P=kind)\}\s*(?P<close>[)\]]?)\s*"
    r"(?P<transposed>\^\s*\{?\s*(?:T|\\top|\\mathsf\s*\{?T\}?|\\text\s*\{T\})\s*\}?)?",
    re.DOTALL,
)


def cells_of(text: str) -> list[list[str]] | None:
    r"""Cut a matrix into rows of cells; None where the text is no matrix alone.

    Example:
        >>> cells_of(r"-\begin{pmatrix}1&2\\3&4\end{pmatrix}")
        [['-1', '-2'], ['-3', '-4']]
    """
    found = _WHOLE.fullmatch(text)
    if found is None or (found["kind"] == "array" and not found["open"]) or bool(found["open"]) != bool(found["close"]):
        return None
    rows = [
        split(row.replace(r"\hline", ""), frozenset("&")) for row in found["cells"].split(r"\\") if row.strip()
    ]  # fmt: skip
    if found["transposed"]:
        rows = [list(row) for row in zip(*rows, strict=False)]
    factor = found["factor"].strip()
    if not factor:
        return rows
    scaled = [[_times(factor, cell) for cell in row] for row in rows]
    return None if any(cell is None for row in scaled for cell in row) else [[str(c) for c in row] for row in scaled]


def _times(factor: str, cell: str) -> str | None:
    """Multiply a cell, a number by carrying it out."""
    first, second = _number("-1" if factor == "-" else factor), _number(cell)
    if first is None:
        return None if not re.fullmatch(r"[-+\\A-Za-z0-9{}^/ .]+", factor) or "=" in factor else rf"{factor}({cell})"
    if second is None:
        return rf"{factor}({cell})"
    value = first * second
    return str(value) if value.denominator == 1 else rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def _number(text: str) -> Fraction | None:
    try:
        tree = read(text)
    except UnreadableError:
        return None
    return rational(tree) if is_affordable(tree) else None
