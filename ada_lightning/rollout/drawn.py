"""What weights that do not change answer: responses of one prompt, and how far a stream of them is."""

from __future__ import annotations

from dataclasses import dataclass

from ada_lightning.core.records import Grade, Prompt


@dataclass(frozen=True, slots=True)
class Draw:
    """One response and what became of grading it. Nothing is left out: what it counts as is the reader's to say."""

    sample_index: int
    """Position among the responses of its prompt, from 0."""
    text: str
    num_tokens: int
    """Response tokens, the end-of-sequence token included where the model produced it."""
    is_truncated: bool
    """Cut by the length limit."""
    grade: Grade


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
