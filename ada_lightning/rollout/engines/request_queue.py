"""What a pool of engines was asked for, and which engine gets what next."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from ada_lightning.rollout.engines.engine_loop import Call
from ada_lightning.rollout.engines.rolling_switch import Assignment, Load, assignment
from ada_lightning.rollout.engines.seat import Seat

_MAX_HOMES = 10_000


class RequestQueue:
    """Requests from their submission to their end, by policy version. The oldest version is served first.

    A request goes to the engine with the fewest in flight for its size, or to the one that has the last request of the
    same prompt, whose prefix is cached there, if that has at most ``affinity`` more requests. A request beyond all
    slots waits here.

    Args:
        affinity: requests by which an engine may exceed the least loaded one.
    """

    def __init__(self, affinity: int) -> None:
        self._affinity = affinity
        self._requests: dict[str, tuple[Call, int]] = {}
        self._waiting: dict[int, deque[str]] = {}
        self._num_open: Counter[int] = Counter()
        self._homes: dict[tuple[int, ...], Seat] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._requests

    @property
    def is_waiting(self) -> bool:
        """Whether a request waits for an engine."""
        return any(self._waiting.values())

    def num_open(self, version: int) -> int:
        """Requests of a version."""
        return self._num_open[version]

    def add(self, submit: Call, version: int) -> None:
        """Let a request wait: a call of ``submit``, whose first arguments are its id and the prompt's tokens."""
        request_id: str = submit.arguments[0]
        self._requests[request_id] = submit, version
        self._num_open[version] += 1
        self._waiting.setdefault(version, deque()).append(request_id)

    def remove(self, request_ids: Iterable[str]) -> set[str]:
        """Forget requests that finished or are not wanted any more; return those that were known."""
        found = {request_id: self._requests.pop(request_id) for request_id in request_ids if request_id in self}
        for version in {version for _, version in found.values()}:
            if version in self._waiting:
                self._waiting[version] = deque(each for each in self._waiting[version] if each not in found)
        self._forget_idle_versions()
        self._num_open.subtract(version for _, version in found.values())
        return set(found)

    def put_back(self, request_ids: Collection[str]) -> int:
        """Let requests that were lost with an engine wait again, before all others; return how many are wanted.

        They are handed out again in the order in which they were added.
        """
        lost = set(request_ids)
        unfinished = [request_id for request_id in self._requests if request_id in lost]
        for request_id in reversed(unfinished):
            self._waiting.setdefault(self._requests[request_id][1], deque()).appendleft(request_id)
        return len(unfinished)

    def forget_prefixes(self, seat: Seat | None = None) -> None:
        """Forget what engines, or one of them, have cached."""
        self._homes = {prompt: home for prompt, home in self._homes.items() if seat is not None and home is not seat}

    def assignment(self, seats: Sequence[Seat], versions: Iterable[int]) -> Assignment:
        """Return which of these versions engines may be given requests of, and which engines switch."""
        if all(seat.told.serves_versions for seat in seats if seat.is_open):
            free = [(index, seat.told.max_num_seqs) for index, seat in enumerate(seats) if seat.is_ready]
            return Assignment(dict.fromkeys(versions, free), ())
        loads = {
            index: Load(seat.version, len(seat.in_flight), seat.told.max_num_seqs, is_ready=seat.is_ready)
            for index, seat in enumerate(seats)
            if seat.is_open
        }
        num_open = {version: self._num_open[version] for version in versions}
        return assignment(loads, num_open, [version for version, waiting in self._waiting.items() if waiting])

    def take(self, seats: Sequence[Seat], room: Mapping[int, Sequence[tuple[int, int]]]) -> tuple[Seat, Call] | None:
        """Return what is to be sent to whom next, and note it there; None: nothing that waits has room."""
        for version in sorted(room):
            with_room = [seats[index] for index, most in room[version] if len(seats[index].in_flight) < most]
            free = [seat for seat in with_room if seat.is_ready]  # and was not lost meanwhile
            if free and self._waiting.get(version):
                request_id = self._waiting[version].popleft()
                submit = self._requests[request_id][0]
                self._forget_idle_versions()
                seat = self._choose(free, submit.arguments[1])
                seat.in_flight.add(request_id)
                return seat, submit
        return None

    def clear(self) -> None:
        """Forget everything."""
        self._requests.clear()
        self._waiting.clear()
        self._num_open.clear()
        self._homes.clear()

    def _forget_idle_versions(self) -> None:
        """Keep only versions of which a request waits: a run has thousands."""
        self._waiting = {version: waiting for version, waiting in self._waiting.items() if waiting}

    def _choose(self, free: Sequence[Seat], prompt_ids: tuple[int, ...]) -> Seat:
        chosen = min(free, key=lambda seat: (len(seat.in_flight) / seat.told.max_num_seqs, seat.index))
        home = self._homes.get(prompt_ids)
        if home is not None and home in free and len(home.in_flight) <= len(chosen.in_flight) + self._affinity:
            chosen = home
        if len(self._homes) >= _MAX_HOMES:  # of a list without a sync; old prompts do not come back
            self._homes.clear()
        self._homes[prompt_ids] = chosen
        return chosen
