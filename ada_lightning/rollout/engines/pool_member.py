"""What a pool of engines needs of the place where they live."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ada_lightning.rollout.engines.engine_messages import Command, Event
from ada_lightning.rollout.engines.weight_digest import Digest

if TYPE_CHECKING:
    from torch import Tensor


class PoolMember(Protocol):
    """An engine that works by itself (:class:`~ada_lightning.rollout.engines.engine_loop.EngineLoop`).

    No call waits for it.
    """

    log_file: Path
    """What it prints; on its own machine."""

    def send(self, command: Command) -> None:
        """Hand a command over, after those before it.

        Raises:
            EngineError: the engine is gone.
        """
        ...

    def events(self) -> list[Event]:
        """Take what has come, in its order; empty where nothing has.

        Raises:
            EngineError: the engine is gone.
        """
        ...

    def close(self, wait_s: float = 0.0) -> None:
        """End it, by force where it has not ended by itself after so many seconds. Safe to call twice."""
        ...


@dataclass(frozen=True, slots=True)
class PublishedWeights:
    """Weights that every member can read, now or after a restart."""

    policy_version: int
    named_tensors: Iterable[tuple[str, Tensor]]
    """Can be read any number of times, in any member's process."""
    digest: Digest


class PoolPlace(Protocol):
    """Where the members of a pool live."""

    def open(self, index: int) -> PoolMember:
        """Begin to start a member; its first event is ``Ready``.

        Args:
            index: of the member, from 0; the same for one that replaces another.

        Raises:
            EngineError: it cannot be started.
        """
        ...

    def wait(self, members: Sequence[PoolMember], timeout_s: float) -> None:
        """Return as soon as one of them has events or is gone, or when the time is over."""
        ...

    def publish(
        self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int, weight_dtype: str
    ) -> PublishedWeights:
        """Put weights where every member can read them, once for all.

        Args:
            named_tensors: read once.
            policy_version: of them.
            weight_dtype: type to store them in; empty for their own.
        """
        ...

    def close(self) -> None:
        """Give everything back, after all members are closed. Safe to call twice."""
        ...
