"""The beginning of a worked solution that a prompt is drawn again with, and where a solution may be cut."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hint:
    """What a prompt was given of its solution, as the beginning of the model's turn."""

    level: int
    """Which of the solution's levels, from 1."""
    num_levels: int
    """Levels that the solution has."""
    text: str
    """Stands in front of the response where it is graded."""
    num_tokens: int
    """Of the text, at the end of the prompt's tokens. The model did not draw them: they never train."""

    @property
    def share(self) -> float:
        """Level as a share of the levels, in (0, 1]."""
        return self.level / self.num_levels


@dataclass(frozen=True, slots=True)
class Solution:
    """A worked solution as the model would write it, and the places where it may be cut."""

    text: str
    token_ids: tuple[int, ...] = ()
    """Of the text; empty where whoever generates encodes it."""
    levels: tuple[tuple[int, int], ...] = ()
    """Characters and tokens of each usable beginning, in ascending order; none where no beginning may be shown."""

    def hint(self, level: int) -> Hint:
        r"""Return a level, from 1.

        Example:
            >>> Solution("2 * 3 = 6\n6 + 1 = 7", levels=((10, 0),)).hint(1).text
            '2 * 3 = 6\n'
        """
        num_characters, num_tokens = self.levels[level - 1]
        return Hint(level, len(self.levels), self.text[:num_characters], num_tokens)
