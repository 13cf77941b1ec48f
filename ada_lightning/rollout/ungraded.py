"""A response that was drawn, before its verdict."""

from __future__ import annotations

from dataclasses import dataclass

from ada_lightning.core.episode import Episode
from ada_lightning.core.records import Generation, Grade
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import Request


@dataclass(frozen=True, slots=True)
class Ungraded:
    """What waits to be graded, and whose it is."""

    step: Step
    request: Request
    generation: Generation
    """All that followed the prompt. ``is_truncated``: a limit ended it."""
    text: str
    """Of an episode, that of its last turn."""
    episode: Episode | None = None
    grade: Grade | None = None
    """By the environment; None: the configured reward is to grade."""

    @property
    def num_tokens(self) -> int:
        """Tokens that the model drew."""
        return len(self.generation.response_ids) if self.episode is None else self.episode.num_sampled
