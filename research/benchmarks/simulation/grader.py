"""A grader in virtual time."""

from __future__ import annotations

from typing import Any

from ada_lightning.core.records import Completion, Grade, Prompt
from ada_lightning.rollout.engines.scripted import POSITIVE_TOKEN
from research.benchmarks.simulation.engine import SimulatedEngine


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
