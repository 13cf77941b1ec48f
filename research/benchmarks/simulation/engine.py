"""Simulated engine replicas behind the :class:`~ada_lightning.core.protocols.RolloutEngine` protocol."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import Outcome, SamplingSettings
from research.benchmarks.simulation.replica import Fates, Replica, Request, Span, StepTime

if TYPE_CHECKING:
    from torch import Tensor


class SimulatedEngine(RolloutEngine):
    """Data-parallel replicas on one virtual clock. Requests go to the replica with the fewest in flight.

    Each ``poll`` advances to the next completion on any replica; replicas step independently.
    """

    def __init__(
        self,
        fates: Fates,
        step_time: StepTime,
        *,
        num_replicas: int = 1,
        slots: int = 128,
        max_model_tokens: int = 4096,
        block_size: int = 16,
        max_batched_tokens: int = 8192,
        reentry_s: float = 0.0,
        jump: bool = True,
    ) -> None:
        self.max_model_tokens = max_model_tokens
        self.max_num_seqs = num_replicas * slots
        self.now = 0.0
        """Virtual seconds."""
        self.num_reentries = 0
        self._fates = fates
        self._reentry_s = reentry_s
        self._jump = jump
        self._replicas = [
            Replica(
                step_time, max_num_seqs=slots, block_size=block_size, max_batched_tokens=max_batched_tokens, jump=jump
            )
            for _ in range(num_replicas)
        ]
        self._home: dict[str, Replica] = {}
        self._has_run = False

    def submit(self, request_id: str, prompt_ids: Sequence[int], settings: SamplingSettings, seed: int | None) -> None:
        """Queue one response."""
        if seed is None:
            raise ValueError("a simulated response needs a seed: set seed_requests")
        if len(prompt_ids) + settings.max_new_tokens > self.max_model_tokens:
            raise ValueError(f"a prompt of {len(prompt_ids)} tokens leaves no room in {self.max_model_tokens} tokens")
        if not self._home and self._has_run:
            self._reenter()
        replica = min(self._replicas, key=lambda replica: replica.num_in_flight)
        fate = self._fates.draw(prompt_ids, settings.max_new_tokens, seed)
        replica.submit(Request(request_id, tuple(prompt_ids), fate), self.now)
        self._home[request_id] = replica

    def poll(self) -> list[Outcome]:
        """Advance to the next completion; return what finished."""
        self._has_run = True
        while busy := [replica for replica in self._replicas if replica.is_busy]:
            replica = min(busy, key=Replica.next_end)
            finished = replica.run()
            self.now = max(self.now, replica.now)
            for request in finished:
                del self._home[request.request_id]
            if finished or not self._jump:
                return [request.fate.generation(request.request_id) for request in finished]
        return []

    def abort(self, request_ids: Sequence[str]) -> int:
        """Drop requests. Return how many tokens had been generated for them."""
        homes = [(self._home.pop(request_id), request_id) for request_id in request_ids if request_id in self._home]
        return sum(replica.abort(request_id, self.now) for replica, request_id in homes)

    def num_in_flight(self) -> int:
        """Requests submitted and neither returned nor aborted."""
        return len(self._home)

    def load_weights(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Forget prefixes; there are no weights."""
        for replica in self._replicas:
            replica.forget_prefixes()

    def close(self) -> None:
        """Nothing to free."""

    def spans(self) -> list[Span]:
        """Stretches of steps of all replicas."""
        return [span for replica in self._replicas for span in replica.spans]

    def _reenter(self) -> None:
        self.now += self._reentry_s
        self.num_reentries += 1
        if self._reentry_s:
            for replica in self._replicas:
                replica.forget_prefixes()
