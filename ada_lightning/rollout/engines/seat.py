"""One place of a pool of engines."""

from __future__ import annotations

from dataclasses import dataclass, field

from ada_lightning.rollout.engines.engine_loop import Call, Event, Ready
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.pool_place import PoolMember


@dataclass(eq=False)
class Seat:
    """Whoever sits there now, what it was asked and what it owes."""

    index: int
    member: PoolMember
    limit_s: float
    """Of its silence while something should come from it, in seconds."""
    told: Ready = field(init=False)
    """What the last member that opened said of itself."""
    is_open: bool = False
    silent_s: float = 0.0
    in_flight: set[str] = field(default_factory=set)
    calls: dict[int, Call] = field(default_factory=dict)
    """Not answered yet, by ticket."""
    num_losses: int = 0
    version: int = -1
    """Of the weights that it has, or is being given; -1: those it was opened with."""

    @property
    def is_ready(self) -> bool:
        """Whether it is open, with the current weights, and does what it is asked next at once."""
        return self.is_open and not self.calls

    @property
    def is_owing(self) -> bool:
        """Whether something should come from it."""
        return not self.is_ready or bool(self.in_flight)

    def events(self, listened_s: float) -> list[Event]:
        """Take what has come, in its order.

        Args:
            listened_s: seconds for which somebody listened since the last call. Others do not count as silence: a
                process that a scheduler stopped waits for longer than it asked.

        Raises:
            EngineError: it is gone, or was silent for too long.
        """
        events = self.member.events()
        if events:
            self.silent_s = 0.0
        elif self.is_owing:
            self.silent_s += listened_s
            if self.silent_s > self.limit_s:
                raise EngineError(f"it made no progress for {self.silent_s:.0f} s and was killed")
        return events
