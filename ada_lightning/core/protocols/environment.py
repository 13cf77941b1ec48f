"""What answers a model that takes turns."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field

from ada_lightning.core.records import Completion, Prompt


@dataclass(frozen=True, slots=True)
class Say:
    """An answer, after which the model takes another turn. A plain text says the same without figures."""

    text: str
    """It stands in a turn of its own; longer than ``environment.max_reply_chars`` it is cut at its end."""
    num_calls: int = 0
    """Calls of tools in the model's turn."""
    num_call_errors: int = 0
    """Those that could not be carried out."""
    reward: float | None = None
    """Of this turn, added to those before it and to that of the end. None: turns have none."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of an episode."""

    reward: float | None = None
    """Of the whole episode, without what its turns were given. None: what they were given, or where they were given
    nothing, what the configured reward makes of the last one."""
    answer: str | None = None
    """As in :class:`~ada_lightning.core.records.Verdict`."""
    components: Mapping[str, float] = field(default_factory=dict)
    """As in :class:`~ada_lightning.core.records.Verdict`."""
    num_calls: int = 0
    """As in :class:`Say`."""
    num_call_errors: int = 0
    """As in :class:`Say`."""


class Environment:
    """One episode's counterpart of the model: made for every episode anew, so that its attributes are its state.

    It runs in worker processes and must be picklable between turns: any worker may take any turn, and what a worker
    that died was doing is done again by another one. Methods may be ``async``. Python's and NumPy's global generators
    are seeded before every call; whatever else it depends on makes a resumed run another one.

    What it raises ends the episode: worth 0 as in doubt the model's doing, or no evidence where it is an ``OSError`` or
    happened in :meth:`start`, before the model had a part in it (:mod:`ada_lightning.rewards.failures`).
    """

    def start(self, prompt: Prompt, seed: int) -> Awaitable[None] | None:
        """Begin an episode; called before the model's first turn is looked at.

        Args:
            prompt: what the model was asked. The task must be a function of it (of ``prompt.reference``): responses to
                a prompt are compared with each other.
            seed: of this episode, for noise alone. In [0, 2**63).
        """
        self.prompt, self.seed = prompt, seed
        return None

    def turn(self, said: Completion) -> str | Say | End | Awaitable[str | Say | End]:
        """Answer a turn of the model, or end the episode.

        Args:
            said: the turn's text, untrusted. ``finish_reason`` is ``length`` where it was cut by the length limit: an
                episode ends there whatever is answered.
        """
        raise NotImplementedError

    def cut(self) -> End | Awaitable[End]:
        """Say what an episode is worth that a limit ended; unless overridden ``End()``."""
        return End()
