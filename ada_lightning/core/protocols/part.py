"""What the parts of a method have in common: a memory, a word on what they bend, and what others must know of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any


class Trait(Enum):
    """What one part must know of another: rules about parts that do not go together ask for these."""

    SHARES_EVIDENCE = auto()
    """An estimator whose beliefs rest on more than their prompt's own responses, and do not say how many those are."""
    GIVES_REWARDS = auto()
    """A sampler that replaces the graders' rewards, as a majority vote without references does."""
    READS_ANSWERS = auto()
    """A sampler that compares the answers of responses, so that a reward has to tell them."""
    LEAVES_OUT_PROMPTS = auto()
    """A sampler that leaves it to chance whether a prompt is sampled at all."""
    CUTS_RESPONSES = auto()
    """A sampler that leaves it to chance whether a long response is drawn to its end."""
    RANKS_BY_ADVANTAGE = auto()
    """A selection that takes advantages over the whole pool, so they must not be those of what it kept."""
    MAY_DROP_A_CLASS = auto()
    """A selection that may keep positives alone or negatives alone of a pool that has both."""
    KEEPS_WHAT_THERE_IS = auto()
    """A selection that keeps what there is of a pool, so nobody would keep to a sampler's group size."""
    PRUNES_RESPONSES = auto()
    """A selection that leaves out responses by chance and weighs the others, so that the expected update stays."""
    PRUNES_PROMPTS = auto()
    """The same for all responses of a prompt at once."""
    COMPARES_POOLS = auto()
    """A selection that looks at all pools of a step before it keeps anything."""

    NEEDS_BOTH_CLASSES = auto()
    """An advantage that follows its objective only if positives and negatives are kept of every pool that has both."""
    COMPARES_DRAWN = auto()
    """An advantage whose baseline is made of the responses drawn for the prompt in the step: one alone has none."""
    COMPARES_KEPT = auto()
    """An advantage whose baseline is made of the responses that train: one alone has none."""
    IS_UNCENTRED = auto()
    """An advantage whose sum over a group need not be 0: what its baseline is wrong by counts for the whole group, and
    cancels only where scores of what trains average to 0."""
    TRAINS_EQUAL_REWARDS = auto()
    """An advantage that may differ from 0 in a group whose rewards are all equal."""


class Part:
    """A part of a method. What most of them do not need is here, with nothing done."""

    traits: frozenset[Trait] = frozenset()

    def bend(self) -> str:
        """Return one line on what it does to the run's objective; empty where it does nothing."""
        return ""

    def state_dict(self) -> dict[str, Any]:
        """What outlives a step, as primitives."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
