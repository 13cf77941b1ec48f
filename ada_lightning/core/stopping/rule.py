"""Stopping rules that look at a prompt's own counts (P positives, Q negatives) and at nothing else.

They are small, hashable and picklable values: a rule travels with every pool that it ended, tables of it are cached by
it, and the sampler decides with the very object that the exact estimator later counts paths of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


class StoppingRule(ABC):
    """Ends a prompt's sampling by its counts."""

    n_max: int
    """Most responses that count as evidence; every path stops here at the latest."""

    @abstractmethod
    def stops(self, num_positive: int, num_negative: int) -> bool:
        """Whether sampling ends at these counts, asked after every single response."""

    def is_resolved(self, num_positive: int, num_negative: int) -> bool:
        """Whether the counts hold what the rule looks for. A rule that looks for nothing is always resolved."""
        return True

    def has_ended(self, outcomes: Sequence[bool]) -> bool:
        """Whether a prompt with these outcomes, positive or not, in launch order, is at its end."""
        num_positive = sum(outcomes)
        return self.stops(num_positive, len(outcomes) - num_positive)

    def capped(self, n_max: int) -> StoppingRule:
        """Return this rule, cut off at ``n_max`` responses."""
        return CappedRule(self, n_max)

    def branches(self) -> tuple[Branch, ...]:
        """Walks that this rule is made of where it remembers how its prompt began; none where counts say it all."""
        return ()


class Branch(StoppingRule):
    """One of the walks that a rule is made of."""

    @abstractmethod
    def holds(self, num_positive: int, num_negative: int) -> bool:
        """Whether a walk that has come this far may be of this branch."""

    @abstractmethod
    def ends_at(self, num_positive: int, num_negative: int) -> bool:
        """Whether a prompt of this branch ends at these counts."""


@dataclass(frozen=True, slots=True)
class FixedRule(StoppingRule):
    """Stop at ``n_max`` responses: uniform groups, and one-shot allocation from history."""

    n_max: int

    def stops(self, num_positive: int, num_negative: int) -> bool:
        """Whether all responses are there."""
        return num_positive + num_negative >= self.n_max


@dataclass(frozen=True, slots=True)
class QuotaRule(StoppingRule):
    """Stop between blocks once there are ``k_pos`` positives and ``k_neg`` negatives, or at ``n_max``.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, section 3.2: "balance" wants both, "pos" has ``k_neg = 0``.
    """

    k_pos: int
    k_neg: int
    samples_per_round: int
    n_max: int

    def stops(self, num_positive: int, num_negative: int) -> bool:
        """Whether a block is complete and the quotas are met, or nothing more may be drawn."""
        num_sampled = num_positive + num_negative
        if num_sampled >= self.n_max:
            return True
        if num_sampled == 0 or num_sampled % self.samples_per_round:
            return False
        return self.is_resolved(num_positive, num_negative)

    def is_resolved(self, num_positive: int, num_negative: int) -> bool:
        """Whether both quotas are met."""
        return num_positive >= self.k_pos and num_negative >= self.k_neg


@dataclass(frozen=True, slots=True)
class CappedRule(StoppingRule):
    """Another rule, cut off at ``n_max`` responses: what a prompt's rule was when the step's budget ran out.

    Giving such a pool no weight at all would cost hard prompts up to two thirds of theirs; counting the paths of the
    rule that really ended it leaves nearly all (``tests/unit/training/test_where_exactness_ends.py``).
    """

    inner: StoppingRule
    n_max: int

    def __post_init__(self) -> None:
        """Refuse a rule that remembers: where it may end depends on more than the counts."""
        if self.inner.branches():
            raise ValueError(f"{type(self.inner).__name__} remembers how a prompt began; use its capped({self.n_max})")

    def stops(self, num_positive: int, num_negative: int) -> bool:
        """Whether the inner rule stops, or nothing more may be drawn."""
        return num_positive + num_negative >= self.n_max or self.inner.stops(num_positive, num_negative)

    def is_resolved(self, num_positive: int, num_negative: int) -> bool:
        """Whether the inner rule found what it looks for."""
        return self.inner.is_resolved(num_positive, num_negative)
