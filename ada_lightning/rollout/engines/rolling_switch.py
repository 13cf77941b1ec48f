"""Which engines of a pool serve which policy version, while several versions are asked for: a rolling switch.

Engines go over to a new version one after another, as they run empty, instead of all together. What keeps the oldest
version from being left without an engine, and the first engine that switches from being handed everything, is a share:
of the engines for a version, by what is open of it, and of what is open of a version for each of its engines.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

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
