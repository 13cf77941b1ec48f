"""The requests to a pool of engines, and which engine gets which of them next.

Engines go over to a new version one after another, as they run empty, instead of all together. Two shares keep the
oldest version from being left without an engine, and the first engine that switches from getting everything. The first
divides the engines by the open requests of each version; the second divides the open requests of a version among its
engines.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ada_lightning.rollout.engines.engine_loop import Call, Event, Ready
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.rollout.engines.pool_place import PoolMember

_QUIET_S = 15.0
"""A working engine says so every second; but weights of a large model take longer to load, and are no reason to warn
twice."""
_OLDEST_WEIGHT = 2.0
"""By which an open request of the oldest version counts more: what others wait for first."""


@dataclass(frozen=True, slots=True)
class Load:
    """What an engine has to do."""

    version: int
    """Of its weights; a negative one that nobody asks for, where it has none."""
    num_in_flight: int
    num_slots: int
    is_ready: bool = True
    """Whether it does at once what it is asked; not while it takes other weights."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a pool does next."""

    room: Mapping[int, Sequence[tuple[int, int]]]
    """By version: engines that may be given requests of it, and how many each may then have."""
    switches: Sequence[tuple[int, int]]
    """Engines that are empty, and the version that each goes over to."""


def shares(num_open: Mapping[int, int], num_engines: int) -> dict[int, int]:
    """Return how many engines each version should have.

    In proportion to its open requests, with those of the oldest counted twice, by largest remainders; the oldest has at
    least one, even while nothing of it is open: graders may be about to ask for more.

    Args:
        num_open: requests in flight and waiting, of every version that may still be asked for; not empty.
        num_engines: those that are open.

    Example:
        >>> shares({3: 10, 4: 30}, 5), shares({3: 0, 4: 100}, 4), shares({3: 1, 4: 9}, 1)
        ({3: 2, 4: 3}, {3: 1, 4: 3}, {3: 1, 4: 0})
    """
    oldest = min(num_open)
    weights = {version: number * (_OLDEST_WEIGHT if version == oldest else 1.0) for version, number in num_open.items()}
    total = sum(weights.values())
    if not total:
        return {version: num_engines if version == max(num_open) else 0 for version in sorted(num_open)}
    ideal = {version: weights[version] / total * num_engines for version in sorted(weights)}
    found = {version: math.floor(share) for version, share in ideal.items()}
    num_left = num_engines - sum(found.values())
    for version in sorted(ideal, key=lambda version: found[version] - ideal[version])[:num_left]:
        found[version] += 1
    if not found[oldest]:
        found[max(found, key=lambda version: found[version])] -= 1
        found[oldest] = 1
    return found


def assignment(loads: Mapping[int, Load], num_open: Mapping[int, int], waiting: Collection[int]) -> Assignment:
    """Return who may take what, and who switches.

    An engine whose version has more engines than its share, the one with the least to do, gets no further request, so
    that it runs empty and can switch.

    Args:
        loads: by engine.
        num_open: as for :func:`shares`; an engine that has any other version may switch at once.
        waiting: versions of which requests wait: for no other does an engine switch.
    """
    wanted = shares(num_open, len(loads))
    surplus = [engine for engine, load in loads.items() if load.version not in num_open]
    room: dict[int, list[tuple[int, int]]] = {}
    lacking: dict[int, int] = {}
    for version, number in wanted.items():
        has_it = [engine for engine, load in loads.items() if load.version == version]
        engines = sorted(has_it, key=lambda engine: (-loads[engine].num_in_flight, engine))
        kept, surplus = engines[:number], surplus + engines[number:]
        most = num_open[version] if len(num_open) == 1 else math.ceil(num_open[version] / max(number, 1))
        room[version] = [(engine, min(most, loads[engine].num_slots)) for engine in kept if loads[engine].is_ready]
        lacking[version] = number - len(kept)
    switches = []
    for engine in sorted(engine for engine in surplus if loads[engine].is_ready and not loads[engine].num_in_flight):
        most_wanted = max(waiting, key=lambda version: (lacking[version], -version), default=None)
        if most_wanted is None or lacking[most_wanted] <= 0:
            break
        switches.append((engine, most_wanted))
        lacking[most_wanted] -= 1
    return Assignment(room, switches)


@dataclass(eq=False)
class Seat:
    """Whoever sits there now, what it was asked and what it owes."""

    index: int
    member: PoolMember
    limit_s: float
    """Of its silence while something should come from it, in seconds."""
    told: Ready = field(init=False)
    """What the last member that opened said of itself."""
    is_open: bool = False
    silent_s: float = 0.0
    longest_s: float = 0.0
    """The longest silence that ended with an answer."""
    is_missed: bool = False
    """Whether a warning says that nothing is heard from it."""
    in_flight: set[str] = field(default_factory=set)
    calls: dict[int, Call] = field(default_factory=dict)
    """Not answered yet, by ticket."""
    num_losses: int = 0
    version: int = -1
    """Of the weights that it has, or is being given; -1: those it was opened with."""
    host: str = ""
    """Where it is; empty: on the trainer's host, or nobody knows yet."""

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"engine {self.index} on {self.host}" if self.host else f"engine {self.index}"

    @property
    def is_ready(self) -> bool:
        """Whether it is open, with the current weights, and does what it is asked next at once."""
        return self.is_open and not self.calls

    @property
    def is_owing(self) -> bool:
        """Whether something should come from it."""
        return not self.is_ready or bool(self.in_flight)

    def events(self, listened_s: float) -> list[Event]:
        """Take what has come, in its order.

        Args:
            listened_s: seconds for which somebody listened since the last call. Others do not count as silence: a
                process that a scheduler stopped waits for longer than it asked.

        Raises:
            EngineError: it is gone, or was silent for too long.
        """
        events = self.member.events()
        if events:
            self._answered()
        elif self.is_owing:
            self.silent_s += listened_s
            if self.silent_s > self.limit_s:
                raise EngineError(f"it made no progress for {self.silent_s:.0f} s and was killed")
            if self.is_open and self.host and self.silent_s > max(_QUIET_S, 2 * self.longest_s):
                self._miss()
        return events

    def _answered(self) -> None:
        if self.is_missed:
            warnings.warn(f"{self.name} answers again, after {self.silent_s:.0f} s", RuntimeWarning, stacklevel=2)
        self.longest_s = max(self.longest_s, self.silent_s)
        self.silent_s, self.is_missed = 0.0, False

    def _miss(self) -> None:
        """Say once that another host is not heard of: its network may be down, or the machine itself."""
        if not self.is_missed:
            warnings.warn(
                f"{self.name} has said nothing for {self.silent_s:.0f} s; after {self.limit_s:.0f} s "
                "(rollout.host.call_timeout_s) others finish its requests",
                RuntimeWarning,
                stacklevel=2,
            )
        self.is_missed = True


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
