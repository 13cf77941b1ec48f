"""One process leads, the others follow: the order of everything collective is the leader's.

A step has parts that one process does alone (rollouts, grading, files) and parts that need all of them (gathering
weights, forward passes over shards, checkpoints). Written out on every rank, each condition around such a part would be
a chance to hang. So the leader runs the plain program, and where it needs the others it says so: they wait in
:meth:`Ranks.lead` and do what they are told until the leader is through, or fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Handler = Callable[[Any], object]


class LeaderStopped(Exception):  # noqa: N818 - not this process's error
    """The leading process has ended the run, and has said why.

    Args:
        kind: class of what it raised.
        text: of it.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"the leading process ended the run: {kind}: {text}")
        self.kind = kind

    @property
    def exit_code(self) -> int:
        """Of this process: 0 where the leader had done all that was asked for."""
        return 0 if self.kind == "PreviewDone" else 1


class Ranks:
    """This process alone: it leads, and nobody follows."""

    is_leader = True
    replica = 0
    """Which part of a batch this process computes. Processes that share one copy of the model have the same."""
    num_replicas = 1
    """Parts that a batch is cut into."""

    def lead(self, work: Callable[[], T]) -> T | None:
        """Do a part of the program in the leading process alone.

        Args:
            work: called by the leader. It may call :meth:`command` and :meth:`stream`; nothing else in it may need the
                other processes (a torchmetric, for one, needs ``sync_on_compute=False``).

        Returns:
            What the leader's ``work`` returned; None in the others, once the leader is through.

        Raises:
            LeaderStopped: in the others, where ``work`` raised.
            KeyboardInterrupt: in all of them, where ``work`` was interrupted.
        """
        return work()

    def on(self, name: str, handler: Handler) -> None:
        """Say what a follower does at a command."""

    @contextmanager
    def command(self, name: str, argument: object = None) -> Iterator[None]:
        """Have the followers' handlers do their part of something collective, while the body does the leader's.

        The argument is anything that pickles.
        """
        yield

    def stream(self, name: str, pieces: Iterator[T]) -> Iterator[T]:
        """Have the followers, whose handlers run the same iteration, take part in every piece of it.

        However much of it the leader uses; each piece is collective.
        """
        return pieces

    def scatter(self, parts: Sequence[Sequence[T]] | None) -> list[T]:
        """Give every process the batches of its replica: the leader has all of them by replica, the others None."""
        assert parts is not None
        return list(parts[0])

    def hosts_without(self, file: Path) -> list[str]:
        """Return the hosts that do not see a file of the leader's, which is made for this and removed. Collective."""
        return []

    def check_together(self, check: Callable[[], None]) -> None:
        """Stop all processes where the ``check`` of one of them raises KeyboardInterrupt, which all then raise."""
        check()

    def totals(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Add up figures over replicas; of keys that end in ``_max`` the largest. All processes have the same keys."""
        return dict(sums)
