"""What grades the responses of a rollout, when its verdicts are ready or at fixed engine steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ada_lightning.core.records import Prompt

_WAIT_S = 0.05


class Grader(Protocol):
    """What a driver needs of :class:`~ada_lightning.rewards.pool.RewardPool`, and episodes of a pool of environments.

    The one is given a :class:`~ada_lightning.core.records.Completion` and gives a
    :class:`~ada_lightning.core.records.Verdict`, the other takes a call and gives a reply.
    """

    def submit(self, ticket: Any, prompt: Prompt, completion: Any) -> None:
        """Queue one response, or one call."""

    def poll(self) -> list[tuple[Any, Any]]:
        """Return verdicts, or replies, that are ready; never blocks."""
        ...

    def wait(self, timeout_s: float) -> list[tuple[Any, Any]]:
        """Block until one is ready or the time is over."""
        ...

    def discard_pending(self) -> None:
        """Forget what was submitted."""


class StepwiseGrader:
    """Hands each verdict over a fixed number of engine steps after its response was submitted, in order of submission.

    A sampler asks for more as verdicts come in, so with graders that answer when they are done the engine's batches
    differ from run to run. Rounding differs with the batch, and by it, rarely, a token. Here the engine waits for a
    verdict that is late and leaves alone one that is early: the composition of every batch is a function of the tokens.
    A poll is taken for an engine step, which is true of an engine in this process only: one that has its own decodes
    between polls, too.

    Args:
        grader: what really grades, with nothing of this collection pending.
        delay: engine steps between submission and verdict. More hide a slower grader; as many steps pass before a
            prompt's next block may start.
        interrupt_check: called while waiting; may raise.
    """

    def __init__(self, grader: Grader, *, delay: int, interrupt_check: Callable[[], None] = lambda: None) -> None:
        self._grader, self._delay, self._interrupt_check = grader, delay, interrupt_check
        self._step = 0
        self._due: deque[tuple[int, Any]] = deque()
        self._verdicts: dict[Any, Any] = {}
        """By ticket, those that have not come yet included."""

    def submit(self, ticket: Any, prompt: Prompt, completion: Any) -> None:
        """Queue one response."""
        self._due.append((self._step + self._delay, ticket))
        self._verdicts[ticket] = None
        self._grader.submit(ticket, prompt, completion)

    def poll(self) -> list[tuple[Any, Any]]:
        """Return the verdicts that are due after another engine step; waits for those that are not there."""
        self._step += 1
        taken = []
        while self._due and self._due[0][0] <= self._step:
            _, ticket = self._due.popleft()
            taken.append((ticket, self._verdict(ticket)))
        return taken

    def wait(self, timeout_s: float) -> list[tuple[Any, Any]]:
        """Return the verdicts that are due next, for an engine that has nothing else to do.

        Args:
            timeout_s: not looked at: how long it takes must not matter.
        """
        if self._due:
            self._step = max(self._step, self._due[0][0]) - 1
        return self.poll()

    def discard_pending(self) -> None:
        """Forget what was submitted."""
        self._due.clear()
        self._verdicts.clear()
        self._grader.discard_pending()

    def _verdict(self, ticket: Any) -> Any:
        self._note(self._grader.poll())
        while (grade := self._verdicts[ticket]) is None:
            self._interrupt_check()
            self._note(self._grader.wait(_WAIT_S))
        del self._verdicts[ticket]
        return grade

    def _note(self, verdicts: list[tuple[Any, Any]]) -> None:
        self._verdicts.update((ticket, grade) for ticket, grade in verdicts if ticket in self._verdicts)
