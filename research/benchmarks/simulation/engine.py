"""Simulated engine replicas behind the :class:`~ada_lightning.core.protocols.RolloutEngine` protocol."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import Completion, Generation, Grade, Prompt, SamplingSettings
from ada_lightning.rollout.engines.scripted import POSITIVE_TOKEN
from research.benchmarks.simulation.replica import Fates, Replica, Request, Span, StepTime

if TYPE_CHECKING:
    from torch import Tensor


class SimulatedEngine(RolloutEngine):
    """Data-parallel replicas on one virtual clock. Requests go to the replica with the fewest in flight.

    Each ``poll`` advances to the next completion (or alarm) on any replica; replicas step independently.
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
        self._alarms: list[float] = []
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

    def poll(self) -> list[Generation]:
        """Advance to the next completion or alarm; return what finished."""
        self._has_run = True
        while busy := [replica for replica in self._replicas if replica.is_busy]:
            replica = min(busy, key=Replica.next_end)
            if self._alarms and self._alarms[0] <= replica.next_end():
                self.now = max(self.now, heapq.heappop(self._alarms))
                return []
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

    def set_alarm(self, at_s: float) -> None:
        """Make a poll return at that time even if nothing finishes: something outside happens then."""
        heapq.heappush(self._alarms, at_s)

    def sleep_until(self, at_s: float) -> None:
        """Let time pass while nothing runs."""
        self.now = max(self.now, at_s)

    def spans(self) -> list[Span]:
        """Stretches of steps of all replicas."""
        return [span for replica in self._replicas for span in replica.spans]

    def _reenter(self) -> None:
        self.now += self._reentry_s
        self.num_reentries += 1
        if self._reentry_s:
            for replica in self._replicas:
                replica.forget_prefixes()


class SimulatedGrader:
    """Gives the verdict that the response's first token tells, a fixed time after it is asked."""

    def __init__(self, engine: SimulatedEngine, *, delay_s: float = 0.0) -> None:
        self._engine = engine
        self._delay_s = delay_s
        self._pending: list[tuple[float, Any, Grade]] = []

    def submit(self, ticket: Any, prompt: Prompt, completion: Completion) -> None:
        """Queue one response."""
        due_s = self._engine.now + self._delay_s
        self._pending.append((due_s, ticket, Grade(float(completion.text == str(POSITIVE_TOKEN)))))
        if self._delay_s:
            self._engine.set_alarm(due_s)

    def poll(self) -> list[tuple[Any, Grade]]:
        """Return verdicts that are due; they come in the order of submission, as the delay is the same for all."""
        due = [entry for entry in self._pending if entry[0] <= self._engine.now]
        self._pending = self._pending[len(due) :]
        return [(ticket, grade) for _, ticket, grade in due]

    def wait(self, timeout_s: float) -> list[tuple[Any, Grade]]:
        """Let virtual time pass until the next verdict; the time-out is one of real time and does not count."""
        if self._pending:
            self._engine.sleep_until(self._pending[0][0])
        return self.poll()

    def discard_pending(self) -> None:
        """Forget what was submitted."""
        self._pending.clear()
