"""Engines that only keep time: one process answers for many, through a socket each and with a pool's own messages."""

from __future__ import annotations

import heapq
import multiprocessing
import os
import random
import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ada_lightning.core.records import Outcome
from ada_lightning.rollout.engines.engine_loop import Alive, Answer, Call, Event, Finished, Opening, Ready, Stop
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.pool_place import PoolMember, PoolPlace
from ada_lightning.rollout.engines.published_weights import PublishedWeights, WeightDigest

if TYPE_CHECKING:
    from torch import Tensor

MEAN_TOKENS, MAX_TOKENS = 256, 1024


@dataclass
class _Engine:
    """One engine: every ``token_s`` each of its requests gets one token."""

    connection: Connection
    due: list[tuple[float, str, int]] = field(default_factory=list)
    """When a request is finished, s; its id and its length, tokens."""
    unwanted: set[str] = field(default_factory=set)
    version: int = -1
    spoke_at: float = 0.0


class _Farm:
    def __init__(self, pipes: Sequence[Connection], num_slots: int, token_s: float) -> None:
        self._engines = {pipe: _Engine(pipe) for pipe in pipes}
        self._num_slots, self._token_s = num_slots, token_s
        self._random = random.Random(0)
        self._ids = tuple(range(1000, 1000 + MAX_TOKENS))
        self._logprobs = tuple(-self._random.random() for _ in range(MAX_TOKENS))

    def run(self) -> None:
        for engine in self._engines.values():
            self._send(engine, Opening(""))
            ready = Ready(MAX_TOKENS + 512, self._num_slots, "", os.getpid(), None, 1, can_sleep=False)
            self._send(engine, ready)
        step_at = time.monotonic()
        while self._engines:
            step_at += self._token_s
            while (wait_s := step_at - time.monotonic()) > 0:
                self._follow(connections.wait(list(self._engines), wait_s))
            self._follow(connections.wait(list(self._engines), 0))
            for engine in self._engines.values():
                self._advance(engine)

    def _follow(self, readable: Iterable[Any]) -> None:
        for pipe in readable:
            engine = self._engines[pipe]
            try:
                self._obey(engine, pipe.recv())
            except (EOFError, OSError):
                del self._engines[pipe]

    def _obey(self, engine: _Engine, command: Any) -> None:
        if isinstance(command, Stop):
            raise EOFError
        if command.method == "submit":
            request_id = command.arguments[0]
            length = max(1, min(MAX_TOKENS, round(self._random.expovariate(1 / MEAN_TOKENS))))
            heapq.heappush(engine.due, (time.monotonic() + length * self._token_s, request_id, length))
            return
        if command.method == "abort":
            engine.unwanted |= set(*command.arguments)
        result: Any = 0
        if command.method == "load_weights":
            digest = WeightDigest()
            list(digest.reading(command.arguments[0].named_tensors))
            result = digest.value()
        if command.policy_version is not None:
            engine.version = command.policy_version
        self._send(engine, Answer(command.ticket, result))

    def _advance(self, engine: _Engine) -> None:
        now, finished = time.monotonic(), []
        while engine.due and engine.due[0][0] <= now:
            _, request_id, length = heapq.heappop(engine.due)
            if request_id in engine.unwanted:
                engine.unwanted.discard(request_id)
                continue
            # A response's first token says whether it is right; the others differ in length alone.
            ids = (int(self._random.random() < 0.5), *self._ids[1:length])
            finished.append(
                Outcome(
                    text="", request_id=request_id, response_ids=ids, sampling_logprobs=self._logprobs[:length],
                    is_truncated=False,
                )
            )  # fmt: skip
        if finished:
            self._send(engine, Finished(engine.version, tuple(finished)))
        elif now - engine.spoke_at > 1.0:
            self._send(engine, Alive())

    def _send(self, engine: _Engine, event: Event) -> None:
        engine.spoke_at = time.monotonic()
        engine.connection.send(event)


def _serve(descriptors: Sequence[socket.socket], num_slots: int, token_s: float) -> None:
    _Farm([Connection(each.detach()) for each in descriptors], num_slots, token_s).run()


class _Member(PoolMember):
    log_file = Path("farm.log")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def send(self, command: Call | Stop) -> None:
        try:
            self.connection.send(command)
        except OSError as error:
            raise EngineError(str(error)) from None

    def events(self) -> list[Event]:
        found: list[Event] = []
        try:
            while self.connection.poll():
                found.append(self.connection.recv())
        except (EOFError, OSError) as error:
            if not found:
                raise EngineError(str(error)) from None
        return found

    def close(self, wait_s: float = 0.0) -> None:
        self.connection.close()


class FarmPlace(PoolPlace):
    """So many engines in one other process.

    Args:
        num_engines: how many.
        num_slots: of each.
        token_s: seconds of a token step.
    """

    def __init__(self, num_engines: int, num_slots: int, token_s: float) -> None:
        pairs = [socket.socketpair() for _ in range(num_engines)]
        theirs = [their for _, their in pairs]
        self._ours = [Connection(our.detach()) for our, _ in pairs]
        context = multiprocessing.get_context("fork")
        self.process = context.Process(target=_serve, args=(theirs, num_slots, token_s), daemon=True)
        self.process.start()
        for their in theirs:
            their.close()

    def open(self, index: int) -> _Member:
        """Return one of them."""
        return _Member(self._ours[index])

    def wait(self, members: Sequence[_Member], timeout_s: float) -> None:
        """Wait for a first event."""
        connections.wait([member.connection for member in members], timeout_s)

    def publish(
        self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int, weight_dtype: str
    ) -> PublishedWeights:
        """Keep weights, of which there are few."""
        digest = WeightDigest()
        return PublishedWeights(policy_version, list(digest.reading(named_tensors)), digest.value())

    def close(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.join()
