"""What a run on several hosts tells whoever breaks them: when a moment has come, and who serves at each step."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch import LightningModule, Trainer

from ada_lightning.callbacks.rollout_listener import RolloutListener
from ada_lightning.rollout.engines.engine_pool import EnginePool

if TYPE_CHECKING:
    from ada_lightning.core.step_records import RolloutResult

SERVED = "served.jsonl"
_WAIT_S = 5.0


class Moments(RolloutListener):
    """Stops a run for a moment in which the host of an engine has work to do, until ``<moment>.go`` is there.

    Moments are ``rollout-<step>``, in the middle of a rollout, and ``sync-<version>``, when weights are on their way.
    After each rollout it notes the hosts that serve. While one is missing a step takes five seconds more, so that it
    can come back before the run is over.

    Args:
        folder: for its files.
        host: name of the host.
        wanted: moments, as above.
        num_hosts: that serve when all is well.
    """

    def __init__(self, *, folder: str | Path, host: str, wanted: list[str], num_hosts: int) -> None:
        self._folder, self._host, self._wanted, self._num_hosts = Path(folder), host, list(wanted), num_hosts
        self._step = 0
        self._pool: Any = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Look into the pool."""
        poll, wait = EnginePool.poll, EnginePool._wait_for_loads

        def seen_poll(pool: EnginePool) -> Any:
            self._pool = pool
            if any(seat.in_flight and self._is_there(seat) for seat in pool._seats):
                self._pause(f"rollout-{self._step}")
            return poll(pool)

        def seen_wait(pool: EnginePool) -> None:
            self._pool = pool
            if any(seat.calls and self._is_there(seat) for seat in pool._seats):
                self._pause(f"sync-{pool._policy_version}")
            wait(pool)

        EnginePool.poll, EnginePool._wait_for_loads = seen_poll, seen_wait  # type: ignore[method-assign]

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """Note who serves, and wait for who does not."""
        served = [seat.host for seat in self._pool._seats if seat.is_open]
        with (self._folder / SERVED).open("a") as file:
            file.write(json.dumps({"step": self._step, "at": time.time(), "hosts": served}) + "\n")
        self._step += 1
        if len(served) < self._num_hosts:
            time.sleep(_WAIT_S)

    def _is_there(self, seat: Any) -> bool:
        return str(seat.host).startswith(f"{self._host} ")

    def _pause(self, moment: str) -> None:
        if moment not in self._wanted:
            return
        self._wanted.remove(moment)
        (self._folder / moment).touch()
        deadline = time.monotonic() + 60
        while not (self._folder / f"{moment}.go").exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"nobody broke anything at {moment} for 60 s")
            time.sleep(0.02)
