"""What a :class:`~ada_lightning.adapters.brain.Brain` hands out and gives back: plain values that can travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Handout:
    """Responses to draw of one prompt now. Plain values, so that it can travel between processes."""

    step: int
    """Of the run, from 0."""
    slot: int
    """Place of the prompt in the step, from 0. One prompt may stand in two slots."""
    prompt_id: str
    indices: tuple[int, ...]
    """Positions in the prompt's launch order; none where it wants nothing now."""
    seeds: tuple[int, ...]
    """One for each index: of 63 bits, a function of run, step, slot, prompt and index alone."""


@dataclass(slots=True)  # thousands are made while the trainer waits; a frozen one takes four times as long
class TrainingRow:
    """A response that trains."""

    slot: int
    prompt_id: str
    index: int
    """Position in the launch order of its prompt."""
    reward: float
    advantage: float
    """As the method says it. Rows with 0 are left out."""
    weight: float
    """Advantage over the step's denominator: the factor of each token's log-probability in a plain sum."""
    payload: Any
    """What :meth:`Brain.add` was given with it."""


@dataclass(frozen=True, slots=True)
class FinishedStep:
    """A whole step: what trains of it, and what it was made of."""

    step: int
    prompt_ids: tuple[str, ...]
    """By slot."""
    num_drawn: tuple[int, ...]
    """Responses of each prompt, ungraded ones included."""
    rows: tuple[TrainingRow, ...]
    """In the order of slots and of launch."""
    denominator: float
    """By which advantages were divided."""
    figures: dict[str, float]
    """For a log, see :meth:`Brain.finish`."""
