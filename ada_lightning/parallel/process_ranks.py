"""Leader and followers over torch.distributed."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ada_lightning.parallel.host_watch import HostWatch
from ada_lightning.parallel.ranks import Handler, LeaderStopped, Ranks

T = TypeVar("T")
_CPU = torch.device("cpu")
PATIENCE = timedelta(days=30)
"""How long a follower waits for the leader: a rollout or an evaluation may take any time. A leader that dies closes its
connections, which ends the wait at once; one whose host is lost is the business of
:class:`~ada_lightning.parallel.host_watch.HostWatch`."""
_SEEN_WITHIN_S = 10.0
"""A file that one host has made may show on the others after some seconds: network file systems keep listings."""


@dataclass(frozen=True, slots=True)
class _Command:
    name: str
    argument: Any


@dataclass(frozen=True, slots=True)
class _Stop:
    kind: str
    text: str
    is_interrupt: bool


class ProcessRanks(Ranks):
    """Every process of the run, connected by a group of its own on the CPU (gloo), whatever training uses.

    Made by all processes together, once the default group exists.

    Args:
        replica: part of a batch that this process computes.
        num_replicas: parts. Rank r belongs to replica ``r // (ranks / num_replicas)``.
    """

    def __init__(self, *, replica: int, num_replicas: int) -> None:
        self.is_leader = dist.get_rank() == 0
        self.replica = replica
        self.num_replicas = num_replicas
        self.group = dist.new_group(backend="gloo", timeout=PATIENCE)
        self._ranks_per_replica = dist.get_world_size() // num_replicas
        self._handlers: dict[str, Handler] = {}
        self._unfinished: Iterator[Any] | None = None
        self._depth = 0
        self._is_broken = False
        self._watch: HostWatch | None = None

    def watch_hosts(self, limit_s: float) -> None:
        """End this process when nothing is heard of another one for so many seconds. Collective."""
        hosts = self._gather(socket.gethostname())
        if len(set(hosts)) > 1:  # on one host a process that is gone has closed its connections
            own: dist.Store = dist.distributed_c10d._get_default_store().clone()  # type: ignore[attr-defined]
            store = dist.PrefixStore("ada_lightning", own)
            self._watch = HostWatch(store, rank=dist.get_rank(), hosts=hosts, limit_s=limit_s)

    def close(self) -> None:
        """Watch no other host any more. Safe to call twice."""
        if self._watch is not None:
            self._watch.close()

    def hosts_without(self, file: Path) -> list[str]:
        """See :class:`Ranks`."""
        if self.is_leader:
            with suppress(OSError):  # then no host sees it, and the others do not wait for ever
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
        self._broadcast(None)  # it is there
        deadline = time.monotonic() + _SEEN_WITHIN_S
        while not (is_seen := file.exists()) and time.monotonic() < deadline:
            time.sleep(0.1)
        lacking = self._gather("" if is_seen else socket.gethostname())
        if self.is_leader:
            file.unlink(missing_ok=True)
        return sorted({host for host in lacking if host})

    def _gather(self, value: str) -> list[str]:
        values: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(values, value, group=self.group)
        return values

    def lead(self, work: Callable[[], T]) -> T | None:
        """See :class:`Ranks`. May be nested."""
        if not self.is_leader:
            self._follow()
            return None
        if self._depth:
            return work()
        self._depth += 1
        try:
            result = work()
        except BaseException as error:
            self._tell_of(error)
            raise
        finally:
            self._depth -= 1
        self._send(None)
        return result

    def on(self, name: str, handler: Handler) -> None:
        """See :class:`Ranks`."""
        self._handlers[name] = handler

    @contextmanager
    def command(self, name: str, argument: object = None) -> Iterator[None]:
        """See :class:`Ranks`. Only inside of :meth:`lead`, where the followers listen."""
        self._check_led(name)
        self._send(_Command(name, argument))
        try:
            yield
        except BaseException:
            self._is_broken = True  # the others wait inside of a collective, and hear nothing
            raise

    def stream(self, name: str, pieces: Iterator[T]) -> Iterator[T]:
        """See :class:`Ranks`. What is not used is finished before the next message."""
        self._check_led(name)
        self._send(_Command(name, None))
        self._unfinished = pieces
        # Not `yield from`: whoever stops asking must not close `pieces`, which the others go through to the end.
        while (piece := self._next(pieces)) is not None:
            yield piece[0]
        self._unfinished = None

    def scatter(self, parts: Sequence[Sequence[T]] | None) -> list[T]:
        """See :class:`Ranks`."""
        if not self.is_leader:
            received: list[Any] = [None]
            dist.recv_object_list(received, src=0, group=self.group, device=_CPU)
            return list(received[0])
        assert parts is not None
        for rank in range(1, dist.get_world_size()):
            dist.send_object_list([parts[rank // self._ranks_per_replica]], rank, group=self.group, device=_CPU)
        return list(parts[0])

    def check_together(self, check: Callable[[], None]) -> None:
        """See :class:`Ranks`."""
        mine: KeyboardInterrupt | None = None
        try:
            check()
        except KeyboardInterrupt as error:
            mine = error
        is_wanted = torch.tensor(int(mine is not None))
        dist.all_reduce(is_wanted, op=dist.ReduceOp.MAX, group=self.group)
        if int(is_wanted):
            raise mine or KeyboardInterrupt("another process was asked to stop")

    def totals(self, sums: Mapping[str, float]) -> dict[str, float]:
        """See :class:`Ranks`. Of the processes of a replica, which all have the same figures, one counts."""
        names = sorted(sums)
        largest = torch.tensor([sums[name] for name in names], dtype=torch.float64)
        counts_once = dist.get_rank() % self._ranks_per_replica == 0
        added = largest.clone() if counts_once else torch.zeros_like(largest)
        dist.all_reduce(added, group=self.group)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.group)
        chosen = [
            big if name.endswith("_max") else total for name, big, total in zip(names, largest, added, strict=True)
        ]
        return dict(zip(names, map(float, chosen), strict=True))

    def _next(self, pieces: Iterator[T]) -> tuple[T] | None:
        try:
            return (next(pieces),)
        except StopIteration:
            return None
        except BaseException:
            self._is_broken = True
            raise

    def _check_led(self, name: str) -> None:
        if not self.is_leader or not self._depth:
            raise RuntimeError(f"{name} is collective: only the leading process may start it, inside of lead()")

    def _follow(self) -> None:
        while (message := self._broadcast(None)) is not None:  # None: the leader is through
            if isinstance(message, _Stop):
                raise (
                    KeyboardInterrupt(message.text)
                    if message.is_interrupt
                    else LeaderStopped(message.kind, message.text)
                )
            self._handlers[message.name](message.argument)

    def _tell_of(self, error: BaseException) -> None:
        if self._is_broken:
            return
        with suppress(RuntimeError):  # a lost connection; the error that is being handled says more
            self._send(_Stop(type(error).__name__, str(error), isinstance(error, KeyboardInterrupt)))

    def _send(self, message: _Command | _Stop | None) -> None:
        if self._unfinished is not None:
            while self._next(self._unfinished) is not None:
                pass
            self._unfinished = None
        self._broadcast(message)

    def _broadcast(self, message: Any) -> Any:
        """Return the leader's message; the others give none."""
        messages = [message]
        dist.broadcast_object_list(messages, src=0, group=self.group, device=_CPU)
        return messages[0]
