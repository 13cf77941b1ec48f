"""Simulated replicas that go over to a new policy version one after another, as a pool of engines does."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from ada_lightning.core.records import Outcome, SamplingSettings
from ada_lightning.rollout.engines.request_queue import Load, assignment
from research.benchmarks.simulation.engine import SimulatedEngine
from research.benchmarks.simulation.replica import Replica, Request


class RollingEngine(SimulatedEngine):
    """Serves several versions at once: the product's own code decides who switches, and how much each may take.

    Args:
        arguments: of :class:`~research.benchmarks.simulation.engine.SimulatedEngine`.
        load_s: seconds for which a replica that takes other weights does nothing else.
        options: of :class:`~research.benchmarks.simulation.engine.SimulatedEngine`.
    """

    def __init__(self, *arguments: Any, load_s: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.num_switches = 0
        self._load_s = load_s
        self._slots = self.max_num_seqs // len(self._replicas)
        self._version_of = dict.fromkeys(range(len(self._replicas)), -1)
        self._waiting: dict[int, deque[Request]] = {}
        self._versions: dict[str, int] = {}
        self._num_open: Counter[int] = Counter()
        self._oldest = 0

    def submit(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        settings: SamplingSettings,
        seed: int | None,
        policy_version: int = 0,
    ) -> None:
        """Queue one response of a version."""
        assert seed is not None
        fate = self._fates.draw(prompt_ids, settings.max_new_tokens, seed)
        self._waiting.setdefault(policy_version, deque()).append(Request(request_id, tuple(prompt_ids), fate))
        self._versions[request_id] = policy_version
        self._num_open[policy_version] += 1

    def poll(self) -> list[Outcome]:
        """Hand out what waits, then advance to the next completion; return what finished."""
        self._dispatch()
        generations = super().poll()
        self._num_open.subtract(self._versions.pop(generation.request_id) for generation in generations)
        return generations

    def abort(self, request_ids: Sequence[str]) -> int:
        """Drop requests, those that wait too. Return how many tokens had been generated for them."""
        unwanted = {name: self._versions.pop(name) for name in request_ids if name in self._versions}
        self._num_open.subtract(unwanted.values())
        for version in set(unwanted.values()):
            kept = [request for request in self._waiting[version] if request.request_id not in unwanted]
            self._waiting[version] = deque(kept)
        return super().abort(request_ids)

    def num_in_flight(self) -> int:
        """Requests submitted and neither returned nor aborted."""
        return len(self._versions)

    def retire_before(self, policy_version: int) -> None:
        """Let engines of older versions go."""
        self._oldest = policy_version

    def _dispatch(self) -> None:
        while any(self._waiting.values()):
            num_open = {version: number for version, number in self._num_open.items() if number} | {
                self._oldest: self._num_open[self._oldest]
            }
            loads = {
                index: Load(self._version_of[index], replica.num_in_flight, self._slots)
                for index, replica in enumerate(self._replicas)
            }
            waiting = {version for version, requests in self._waiting.items() if requests}
            found = assignment(loads, num_open, waiting)
            for index, version in found.switches:
                self._switch(index, version)
            has_given = False
            for version in sorted(waiting):
                room = {index: most - loads[index].num_in_flight for index, most in found.room[version]}
                while self._waiting[version] and room:
                    index = min(room, key=lambda index: (self._replicas[index].num_in_flight, index))
                    if room[index] <= 0:
                        del room[index]
                        continue
                    room[index] -= 1
                    self._give(self._replicas[index], self._waiting[version].popleft())
                    has_given = True
            if not has_given and not found.switches:
                return

    def _give(self, replica: Replica, request: Request) -> None:
        replica.submit(request, self.now)
        self._home[request.request_id] = replica

    def _switch(self, index: int, version: int) -> None:
        replica = self._replicas[index]
        replica.catch_up(self.now)
        replica.forget_prefixes()
        if self._version_of[index] >= 0:
            replica.now += self._load_s
            self.num_switches += 1
        self._version_of[index] = version
