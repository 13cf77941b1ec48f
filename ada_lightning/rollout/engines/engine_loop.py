"""An engine that runs in a loop of its own, and what travels between it and whoever asks it for responses."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from ada_lightning.core.protocols import RolloutEngine, VersionedEngine
from ada_lightning.core.records import Outcome
from ada_lightning.rollout.engines.published_weights import Digest, PublishedWeights, WeightDigest
from ada_lightning.rollout.engines.weight_transfer import WeightTransfer

ALIVE_INTERVAL_S = 1.0
"""A working engine from which nothing finishes says so this often."""


@dataclass(frozen=True, slots=True)
class Call:
    """Have a method of the engine called; answered by :class:`Answer` of the same ticket."""

    ticket: int
    """Of ``submit``, which is not answered, 0."""
    method: str
    """``submit``, ``abort``, ``sleep``, ``update_weights``, or ``load_weights`` with a :class:`PublishedWeights`; of
    an engine that serves several versions also ``publish`` with them, and ``keep``."""
    arguments: tuple[Any, ...] = ()
    policy_version: int | None = None
    """Of the weights that the engine has afterwards, where those are others."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of ``submit``, by name: a policy version or a draft, which only some engines take."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the loop."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The loop runs on this host and opens its engine."""

    host: str
    """Its name and address; empty: the trainer's own."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine is open."""

    max_model_tokens: int
    max_num_seqs: int
    weight_dtype: str
    """Name of the torch dtype that weights should arrive in; empty where any will do."""
    pid: int
    """Process it runs in, on its machine."""
    weight_transfer: WeightTransfer | None
    """How weights come, if not published."""
    num_workers: int
    """Processes of the engine that weights go to."""
    can_sleep: bool
    takes_adapters: bool = False
    serves_versions: bool = False
    """Whether it samples from several policy versions at once by itself."""
    takes_drafts: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """Responses that finished, by the weights of ``policy_version`` (-1: those the engine was opened with).

    Of an engine that serves several versions they are by the one that each was asked of.
    """

    policy_version: int
    generations: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Alive:
    """The engine makes progress, and nothing finished for a while."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A call returned: of weights the digest of what arrived, of any other call what the method returned."""

    ticket: int
    result: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine broke and the loop ended."""

    reason: str


Command = Call | Stop
Event = Opening | Ready | Finished | Alive | Answer | Failed


class EngineLoop:
    """Turns commands into calls of an engine, and what comes of them into events.

    Commands are followed in their order and between engine steps, so that nothing of an aborted request comes after the
    answer to its abort.

    Args:
        open_engine: makes the engine, in the loop's own thread.
        commands: where commands come from.
        send: takes events; called from the loop's thread.
        host: as :class:`Opening` has it.
    """

    def __init__(
        self,
        open_engine: Callable[[], RolloutEngine],
        commands: SimpleQueue[Command],
        send: Callable[[Event], None],
        *,
        host: str = "",
    ) -> None:
        self._open_engine = open_engine
        self._commands = commands
        self._send_event = send
        self._host = host
        self._policy_version = -1
        self._last_sent_s = time.monotonic()

    def run(self) -> None:
        """Open the engine and work until :class:`Stop` or an error.

        Raises:
            Exception: whatever the engine raised, after it was sent as :class:`Failed`.
        """
        engine = None
        try:
            self._send(Opening(self._host))
            engine = self._open_engine()
            self._send(_introduction(engine))
            while self._follow_commands(engine):
                self._advance(engine)
        except Exception as error:
            self._send(Failed(f"{type(error).__name__}: {error}"))
            raise
        finally:
            if engine is not None:
                engine.close()

    def _advance(self, engine: RolloutEngine) -> None:
        if generations := engine.poll():
            self._send(Finished(self._policy_version, tuple(generations)))
        elif time.monotonic() - self._last_sent_s > ALIVE_INTERVAL_S:
            self._send(Alive())

    def _follow_commands(self, engine: RolloutEngine) -> bool:
        """Follow what has come, waiting for it where nothing is in flight; False where it was to stop."""
        while True:
            try:
                command = self._commands.get(block=engine.num_in_flight() == 0)
            except Empty:
                return True
            if isinstance(command, Stop):
                return False
            if command.method == "submit":
                engine.submit(*command.arguments, **command.options)
                continue
            if command.method in ("load_weights", "publish"):
                result: Any = _read(getattr(engine, command.method), *command.arguments)
            else:
                result = getattr(engine, command.method)(*command.arguments)
            if command.policy_version is not None:
                self._policy_version = command.policy_version
            self._send(Answer(command.ticket, result))

    def _send(self, event: Event) -> None:
        self._last_sent_s = time.monotonic()
        self._send_event(event)


def _read(take: Callable[..., None], weights: PublishedWeights) -> Digest:
    """Have published weights taken; the digest of what was read."""
    digest = WeightDigest()
    arriving = digest.reading(weights.named_tensors)
    take(arriving, weights.policy_version)
    for _ in arriving:  # an engine without weights may leave some
        continue
    return digest.value()


def _introduction(engine: RolloutEngine) -> Ready:
    transfer = engine.weight_transfer
    return Ready(
        engine.max_model_tokens,
        engine.max_num_seqs,
        engine.weight_dtype,
        os.getpid(),
        weight_transfer=transfer if transfer is not None and transfer.backend else None,
        num_workers=engine.num_workers,
        can_sleep=engine.sleep_level > 0,
        takes_adapters=engine.takes_adapters,
        serves_versions=isinstance(engine, VersionedEngine) and engine.serves_versions,
        takes_drafts=engine.takes_drafts,
    )
