"""What grades the responses of a rollout."""

from __future__ import annotations

from typing import Any, Protocol

from ada_lightning.core.records import Completion, Grade, Prompt


class Grader(Protocol):
    """What the collector needs of :class:`~ada_lightning.rewards.pool.RewardPool`."""

    def submit(self, ticket: Any, prompt: Prompt, completion: Completion) -> None:
        """Queue one response."""
        ...

    def poll(self) -> list[tuple[Any, Grade]]:
        """Return verdicts that are ready; never blocks."""
        ...

    def wait(self, timeout_s: float) -> list[tuple[Any, Grade]]:
        """Block until a verdict is ready or the time is over."""
        ...

    def discard_pending(self) -> None:
        """Forget what was submitted."""
        ...
