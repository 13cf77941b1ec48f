"""What weights that do not change answer: responses of one prompt, and how far a stream of them is."""

from __future__ import annotations

from dataclasses import dataclass

from ada_lightning.core.episode import Turn
from ada_lightning.core.records import Grade, Prompt


@dataclass(frozen=True, slots=True)
class Draw:
    """One response and what became of grading it. Nothing is left out: what it counts as is the reader's to say."""

    sample_index: int
    """Position among the responses of its prompt, from 0."""
    text: str
    num_tokens: int
    """Tokens that the model drew, the end-of-sequence token included where it did."""
    is_truncated: bool
    """Cut by the length limit; of an episode, ended by a limit."""
    grade: Grade
    turns: tuple[Turn, ...] = ()
    """Of an episode with an environment, whose last turn ``text`` is; empty for a single response."""


@dataclass(frozen=True, slots=True)
class DrawnPrompt:
    """A prompt with all of its responses, in the order of ``sample_index``."""

    position: int
    """Index of the prompt in the whole list that is worked off; part of every seed."""
    prompt: Prompt
    draws: tuple[Draw, ...]


@dataclass(slots=True)
class DrawCounts:
    """How far a stream is."""

    num_prompts: int = 0
    """Prompts whose responses are all graded."""
    num_responses: int = 0
    """Responses generated."""
    num_tokens: int = 0
    """Response tokens generated."""
