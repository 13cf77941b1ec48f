"""Rewards the form of a response, whatever it says."""

from __future__ import annotations

import re

from ada_lightning.core.records import Completion, Prompt


class FormatReward:
    r"""1.0 where the whole response matches a regular expression, else 0.0; surrounding white space does not count.

    ``.`` matches line ends too. A pattern that looks for something anywhere begins and ends with ``.*``. One that
    backtracks without end on some text runs into the pool's time limit, and where it does so twice that response
    is worth 0.

    A chat template may open the thinking part itself. The response then has ``</think>`` and no ``<think>``, and a
    pattern that asks for both matches none: leave the first one open, as in the example.

    Args:
        pattern: in the syntax of Python's ``re``.

    Raises:
        ValueError: ``pattern`` is no regular expression.

    Example:
        >>> reward = FormatReward(r"(?:<think>)?.+</think>\s*<answer>[^<]+</answer>")
        >>> texts = "<think>5 + 7</think>\n<answer>12</answer>", "5 + 7</think> <answer>12</answer>", "12"
        >>> [reward(Prompt("id", ()), Completion(text)) for text in texts]
        [1.0, 1.0, 0.0]
    """

    def __init__(self, pattern: str) -> None:
        try:
            self._regex = re.compile(pattern, re.DOTALL)
        except re.error as error:
            raise ValueError(f"FormatReward: pattern = {pattern!r} is no regular expression: {error}") from error
        self.pattern = pattern

    def __call__(self, prompt: Prompt, completion: Completion) -> float:
        """Grade one response."""
        return float(self._regex.fullmatch(completion.text.strip()) is not None)
