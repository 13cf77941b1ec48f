"""Running counts of a collection."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """What :class:`~ada_lightning.rollout.result.RolloutStats` is made of; see there for the units."""

    num_drawn: int = 0
    num_failed: int = 0
    num_failed_excluded: int = 0
    num_truncated: int = 0
    num_empty: int = 0
    generated_tokens: int = 0
    wasted_tokens: int = 0
    num_cache_hits: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    failure_details: dict[str, str] = field(default_factory=dict)
