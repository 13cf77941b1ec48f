"""What to do where a gold answer is a whole solution with the answer at its end."""

from __future__ import annotations

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
