"""Runs an engine in a loop of its own, so that whoever asks need not be there for every token."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.rollout.engines.engine_messages import (
    Abort,
    Aborted,
    Alive,
    Asleep,
    Command,
    Event,
    Failed,
    Finished,
    Load,
    Loaded,
    Ready,
    Sleep,
    Stop,
    Submit,
    Update,
    Updated,
)
from ada_lightning.rollout.engines.weight_digest import WeightDigest

ALIVE_INTERVAL_S = 1.0
"""A working engine from which nothing finishes says so this often."""


class EngineLoop:
    """Turns commands into calls of an engine, and what comes of them into events.

    Commands are followed in their order and between engine steps, so that nothing of an aborted request comes after its
    :class:`~ada_lightning.rollout.engines.engine_messages.Aborted`.

    Args:
        open_engine: makes the engine, in the loop's own thread.
        commands: where commands come from.
        send: takes events; called from the loop's thread.
    """

    def __init__(
        self,
        open_engine: Callable[[], RolloutEngine],
        commands: SimpleQueue[Command],
        send: Callable[[Event], None],
    ) -> None:
        self._open_engine = open_engine
        self._commands = commands
        self._send_event = send
        self._policy_version = -1
        self._last_sent_s = time.monotonic()

    def run(self) -> None:
        """Open the engine and work until :class:`~ada_lightning.rollout.engines.engine_messages.Stop` or an error.

        Raises:
            Exception: whatever the engine raised, after it was sent as
                :class:`~ada_lightning.rollout.engines.engine_messages.Failed`.
        """
        engine = None
        try:
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
            self._follow(engine, command)

    def _follow(self, engine: Any, command: Submit | Abort | Load | Update | Sleep) -> None:
        if isinstance(command, Submit):
            engine.submit(command.request_id, command.prompt_ids, command.settings, command.seed)
        elif isinstance(command, Abort):
            self._send(Aborted(command.ticket, engine.abort(command.request_ids)))
        elif isinstance(command, Sleep):
            self._send(Asleep(engine.sleep()))
        elif isinstance(command, Update):
            engine.update_weights(command.method, command.argument)
            self._policy_version = command.policy_version
            self._send(Updated(command.method))
        else:
            digest = WeightDigest()
            arriving = digest.reading(command.named_tensors)
            engine.load_weights(arriving, command.policy_version)
            for _ in arriving:  # an engine without weights may leave some
                continue
            self._policy_version = command.policy_version
            self._send(Loaded(command.policy_version, digest.value()))

    def _send(self, event: Event) -> None:
        self._last_sent_s = time.monotonic()
        self._send_event(event)


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
    )
