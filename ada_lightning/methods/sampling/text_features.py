"""What a linear reward sees of a response's text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class TextFeatures:
    """Numbers of a text, each of about the size of 1."""

    names: Sequence[str]
    """Of the features, for whoever reads the weights."""

    def __call__(self, text: str) -> NDArray[np.float64]:
        """Return the features, in the order of ``names``. Shape ``(F,)``."""
        raise NotImplementedError(f"{type(self).__name__} needs a method __call__(text)")


class CharacterShares(TextFeatures):
    """Shares of letters, digits, white space and other characters, and the length as ``log(1 + characters) / 5``.

    Example:
        >>> CharacterShares()("a 12").tolist()
        [0.25, 0.5, 0.25, 0.0, 0.32188758248682003]
    """

    names = ("letters", "digits", "spaces", "others", "length")

    def __call__(self, text: str) -> NDArray[np.float64]:
        """Zeros of an empty text. Shape ``(5,)``."""
        counts = [
            sum(map(str.isalpha, text)),
            sum(map(str.isdigit, text)),
            sum(map(str.isspace, text)),
        ]
        shares = np.array([*counts, len(text) - sum(counts)]) / max(len(text), 1)
        return np.array([*shares, math.log1p(len(text)) / 5])
