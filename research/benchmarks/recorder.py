"""Who spends the seconds: exclusive times of wrapped functions, as a list of stretches."""

from __future__ import annotations

import functools
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time in which one part, and nothing inside it that is recorded too, was at work."""

    part: str
    start: float
    end: float


class Recorder:
    """Records which part is at work. What is not wrapped counts as ``rest``."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self.samples: list[tuple[float, float]] = []
        """(time, value) of whatever :meth:`sample` was given."""
        self._stack = ["rest"]
        self._since = time.perf_counter()

    def wrap(self, owner: Any, name: str, part: str) -> None:
        """Count the seconds of every call of ``owner.name`` as ``part``, less those of wrapped functions it calls."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._switch()
            self._stack.append(part)
            try:
                return function(*args, **kwargs)
            finally:
                self._switch()
                self._stack.pop()

        setattr(owner, name, wrapped)

    def sample(self, value: float) -> None:
        """Remember a value that changes with time."""
        self.samples.append((time.perf_counter(), value))

    def seconds(self, start: float, end: float) -> Counter[str]:
        """Seconds by part between two times."""
        self._switch()
        found: Counter[str] = Counter()
        for stretch in self.stretches:
            overlap = min(end, stretch.end) - max(start, stretch.start)
            if overlap > 0:
                found[stretch.part] += overlap
        return found

    def _switch(self) -> None:
        now = time.perf_counter()
        self.stretches.append(Stretch(self._stack[-1], self._since, now))
        self._since = now
