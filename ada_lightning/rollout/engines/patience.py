"""How long an engine may say nothing before it counts as hanging."""

from __future__ import annotations


class Patience:
    """Adds up the time spent listening in vain.

    Time in which nobody listened does not count: a job that a scheduler stopped and continued, or a trainer that was
    busy, must not take a working engine for a hanging one.

    Args:
        limit_s: seconds.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.silent_s = 0.0

    def heard(self) -> None:
        """Something came: begin anew."""
        self.silent_s = 0.0

    def waited(self, seconds: float, asked_s: float) -> bool:
        """Note a wait in vain; whether the limit is passed.

        Args:
            seconds: that it took.
            asked_s: that it should have taken; a process that was stopped takes longer.
        """
        self.silent_s += min(seconds, 2 * asked_s)
        return self.silent_s > self.limit_s
