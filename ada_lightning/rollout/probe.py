"""Responses that test an engine's weights, drawn with a policy version before those that train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import Outcome, SamplingSettings
from ada_lightning.rollout.engines.errors import guarded


@dataclass(frozen=True, slots=True)
class Probe:
    """One response after each of some prefixes; seeds are their numbers."""

    prefixes: Sequence[tuple[int, ...]]
    sampling: SamplingSettings
    note: Callable[[Sequence[Outcome]], object]
    """Called once with all of them, in the order of the prefixes."""

    def run(self, engine: RolloutEngine) -> None:
        """Draw them from an engine with nothing in flight.

        Raises:
            EngineError: the engine broke.
        """
        open_probe = OpenProbe(self, "canary")
        open_probe.submit(engine.submit)
        while not open_probe.is_over:
            for generation in guarded(engine.poll):
                open_probe.take(generation)


class OpenProbe:
    """A probe under way, among other requests of an engine.

    Args:
        probe: what is asked.
        name: of its requests, before their numbers.
    """

    def __init__(self, probe: Probe, name: str) -> None:
        self._probe = probe
        self._names = [f"{name}/{index}" for index in range(len(probe.prefixes))]
        self._known: dict[str, Outcome] = {}

    @property
    def is_over(self) -> bool:
        """Whether all has been said."""
        return len(self._known) == len(self._names)

    def submit(self, submit: Callable[..., Any]) -> None:
        """Ask for what is not known; anew where an engine was lost with it."""
        for index, (name, prefix) in enumerate(zip(self._names, self._probe.prefixes, strict=True)):
            if name not in self._known:
                guarded(submit, name, prefix, self._probe.sampling, index)

    def take(self, generation: Outcome) -> bool:
        """Take a response, if it is one of these; whether it is."""
        if generation.request_id not in self._names:
            return False
        self._known[generation.request_id] = generation
        if self.is_over:
            self._probe.note([self._known[name] for name in self._names])
        return True

    @property
    def in_flight(self) -> list[str]:
        """Requests that are not answered."""
        return [name for name in self._names if name not in self._known]
