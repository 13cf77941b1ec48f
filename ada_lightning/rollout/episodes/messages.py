"""What passes between the driver and a worker that runs environments."""

from __future__ import annotations

from dataclasses import dataclass, field

from ada_lightning.core.records import Completion, Verdict


@dataclass(frozen=True, slots=True)
class Call:
    """A turn of the model, for an environment in the state that it was left in."""

    seed: int
    said: Completion
    index: int
    """Turns before it."""
    state: bytes = b""
    """The environment after the turn before, pickled; empty before the first."""
    limit: str = ""
    """Why the episode ends here even if the environment has more to say; empty where it need not."""
    is_cut: bool = False
    """Whether the turn was answered already, and there is no room for the answer."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What an environment made of a turn. Plain values only: what unpickles it is the trainer."""

    text: str = ""
    state: bytes = b""
    """The environment, pickled; opaque to whoever receives it, and empty after the end."""
    is_end: bool = False
    limit: str = ""
    """The limit that ended it; empty where the environment did."""
    grade: Verdict | None = None
    """Of the end; None where the configured reward is to grade."""
    reward: float | None = None
    """Of the turn alone, where turns have any."""
    num_calls: int = 0
    num_call_errors: int = 0
    seconds: float = field(default=0.0, compare=False)

    @property
    def failure(self) -> str:
        """Why the environment failed; empty where it did not."""
        return self.grade.failure if self.grade is not None else ""

    @property
    def detail(self) -> str:
        """What a person wants to read of a failure."""
        return self.grade.detail if self.grade is not None else ""


def failed(grade: Verdict) -> Reply:
    """Return the reply of an environment that could not answer, with what the episode is then worth."""
    named = Verdict(grade.reward, failure=f"environment_{grade.failure}", detail=grade.detail)
    return Reply(is_end=True, grade=named)
