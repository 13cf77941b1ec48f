"""An engine whose calls must end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ada_lightning.core.protocols import RolloutEngine, SleepingEngine
from ada_lightning.core.records import Generation, SamplingSettings
from ada_lightning.rollout.engines.watchdog import Watchdog

if TYPE_CHECKING:
    from torch import Tensor


class WatchedEngine:
    """A :class:`~ada_lightning.core.protocols.RolloutEngine` that passes every call on, under a time limit.

    Args:
        engine: that does the work.
        watchdog: with the limit.
    """

    def __init__(self, engine: RolloutEngine, watchdog: Watchdog) -> None:
        self.engine = engine
        self.max_model_tokens = engine.max_model_tokens
        self._watchdog = watchdog

    @property
    def max_num_seqs(self) -> int:
        """Slots that the engine has now: a pool loses those of an engine that it leaves out."""
        return self.engine.max_num_seqs

    @property
    def sleep_level(self) -> int:
        """How deep the engine can sleep; 0: not at all."""
        return int(getattr(self.engine, "sleep_level", 0))

    def submit(self, request_id: str, prompt_ids: Sequence[int], settings: SamplingSettings, seed: int | None) -> None:
        """Queue one response."""
        with self._watchdog.watch("submit"):
            self.engine.submit(request_id, prompt_ids, settings, seed)

    def poll(self) -> list[Generation]:
        """Advance and return the responses that finished."""
        with self._watchdog.watch("poll"):
            return self.engine.poll()

    def abort(self, request_ids: Sequence[str]) -> int:
        """Drop requests. Return how many tokens had been generated for them."""
        with self._watchdog.watch("abort"):
            return self.engine.abort(request_ids)

    def num_in_flight(self) -> int:
        """Requests submitted and neither returned nor aborted."""
        return self.engine.num_in_flight()

    def load_weights(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Replace the weights and forget every cached prefix."""
        with self._watchdog.watch("load_weights"):
            self.engine.load_weights(named_tensors, policy_version)

    def sleep(self) -> bool:
        """Give memory back, where the engine can; whether the weights will still be there."""
        if not isinstance(self.engine, SleepingEngine):
            return True
        with self._watchdog.watch("sleep"):
            return self.engine.sleep()

    @property
    def num_restarts(self) -> int:
        """Engines that a pool has replaced by itself."""
        return int(getattr(self.engine, "num_restarts", 0))

    def close(self) -> None:
        """Free everything."""
        with self._watchdog.watch("close"):
            self.engine.close()
