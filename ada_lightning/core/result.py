"""What a rollout step and an evaluation hand to whoever reports them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ada_lightning.core.records import ResponseGroup

if TYPE_CHECKING:
    from ada_lightning.core.top_up import Division


@dataclass(slots=True)
class RolloutStats:
    """Counts of one step, as it goes on. All are sums, so that they add up over steps and ranks."""

    num_prompts: int = 0
    num_drawn: int = 0
    """Committed responses, excluded ones included."""
    num_failed: int = 0
    """Responses whose grader failed."""
    num_failed_excluded: int = 0
    """Those of them that are no evidence; the others count as 0."""
    num_truncated: int = 0
    num_limited: int = 0
    """Responses that a sampler would cut where they get long: no evidence, whether they did or not."""
    num_cut: int = 0
    """Those of them that it cut: drawn, not graded, left out."""
    num_empty: int = 0
    num_skipped_prompts: int = 0
    """Prompts too long for the engine."""
    generated_tokens: int = 0
    """Response tokens of committed responses."""
    wasted_tokens: int = 0
    """Response tokens of responses that were generated and not committed."""
    num_cache_hits: int = 0
    """Committed responses with the grade of an equal one before."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failed grades by reason."""
    failure_details: dict[str, str] = field(default_factory=dict)
    """What the first one of each reason says."""
    seconds: float = 0.0
    """Wall-clock seconds of whoever drove the step, weight sync excluded."""

    def note_failure(self, reason: str, detail: str, *, is_excluded: bool) -> None:
        """Count a response whose grader failed."""
        self.num_failed += 1
        self.num_failed_excluded += is_excluded
        self.failures[reason] = self.failures.get(reason, 0) + 1
        self.failure_details.setdefault(reason, detail)

    @property
    def drawn_tokens(self) -> int:
        """All response tokens that the engine generated: what a rollout costs, whatever came of it."""
        return self.generated_tokens + self.wasted_tokens


@dataclass(frozen=True, slots=True)
class RolloutResult:
    """One rollout step: a group for each prompt of the step, in the step's order.

    Where a step is filled up, those that were filtered or not needed (``is_surplus``) keep nothing.
    """

    step: int
    """Rollout step, from 0."""
    policy_version: int
    groups: tuple[ResponseGroup, ...]
    stats: RolloutStats
    division: Division | None = None
    """What became of the groups of a step that was filled up."""


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Held-out evaluation of one policy version."""

    policy_version: int
    step: int
    """Rollout steps finished before it; 0 is the untrained policy."""
    groups: tuple[ResponseGroup, ...]
    metrics: dict[str, float]
    """For example ``eval/avg_at_4``."""
    is_final: bool
    """Whether no training follows."""
