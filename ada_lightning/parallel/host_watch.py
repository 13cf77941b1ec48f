"""A training host that is lost: the processes on the others end instead of waiting for it.

A process that dies closes its connections, which ends every wait for it. A host whose power or network is gone closes
nothing: whoever waits to receive from it waits for ever, in native code that no one can interrupt.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import count
from typing import Any

from ada_lightning.run.stopping import STALLED

_BEAT_S = 5.0


class HostWatch:
    """Ends this process when another one of the run has not been heard of for so long.

    Every process counts up a number of its own in the store that connects them. Time counts in which this process ran,
    so a job that was stopped as a whole goes on.

    Args:
        store: of the run, which the host of the first process keeps; used by one thread of this object alone.
        rank: of this process.
        hosts: name of each process's host, by rank.
        limit_s: seconds.
        end: called with the sentence for the person at the terminal.
    """

    def __init__(
        self,
        store: Any,
        *,
        rank: int,
        hosts: Sequence[str],
        limit_s: float,
        end: Callable[[str], None] | None = None,
    ) -> None:
        self._store, self._rank, self._hosts, self._limit_s = store, rank, hosts, limit_s
        self._end = end or _end_process
        self._beat_s = min(_BEAT_S, limit_s / 6)
        self._heard: dict[int, int] = {}
        """By rank, its number when it was last asked for."""
        self._is_reached = True
        """Whether the store answered last."""
        self._is_over = threading.Event()
        store.set_timeout(timedelta(seconds=max(1.0, self._beat_s)))
        for name, work in (("host beat", self._beat), ("host watch", self._watch)):
            threading.Thread(target=work, name=name, daemon=True).start()

    def close(self) -> None:
        """Stop watching. Safe to call twice."""
        self._is_over.set()

    def _beat(self) -> None:
        """Exchange numbers. A call of the store may never return: then nothing is heard, and the other thread acts."""
        others = [rank for rank in range(len(self._hosts)) if rank != self._rank]
        for number in count():
            self._is_reached = False
            with contextlib.suppress(RuntimeError):  # of a store that does not answer
                self._store.set(f"beat/{self._rank}", str(number))
                for rank in others:
                    self._heard[rank] = int(self._store.get(f"beat/{rank}"))
                self._is_reached = True
            if self._is_over.wait(self._beat_s):
                return

    def _watch(self) -> None:
        silent_s = {rank: 0.0 for rank in range(len(self._hosts)) if rank != self._rank}
        seen, looked_at = dict(self._heard), time.monotonic()
        while not self._is_over.wait(self._beat_s):
            now = time.monotonic()
            passed_s, looked_at = min(now - looked_at, 2 * self._beat_s), now  # more: this process was stopped
            heard = dict(self._heard)
            for rank in silent_s:
                silent_s[rank] = silent_s[rank] + passed_s if heard.get(rank) == seen.get(rank) else 0.0
            seen = heard
            # Two beats early: a collective that gives up after the same time would not say which host it waited for.
            if lost := [rank for rank, seconds in silent_s.items() if seconds > self._limit_s - 2 * self._beat_s]:
                # Without the store, which the first process's host keeps, nothing is known of the others.
                named = lost if self._is_reached or self._rank == 0 else [0]
                self._end(self._sentence(sorted({self._hosts[rank] for rank in named})))
                return

    def _sentence(self, hosts: Sequence[str]) -> str:
        are = "has" if len(hosts) == 1 else "have"
        return (
            f"host {' and '.join(hosts)} {are} not been heard of for {self._limit_s / 60:g} minutes "
            f"(trainer.strategy.timeout_minutes): this process on host {self._hosts[self._rank]} ends with exit code "
            f"{STALLED}. Continue from the last checkpoint, with the hosts that are left: ckpt=last"
        )


def _end_process(text: str) -> None:
    try:
        print(f"\n{text}", file=sys.__stderr__, flush=True)
    finally:
        os._exit(STALLED)
