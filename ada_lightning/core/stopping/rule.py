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


@dataclass(frozen=True, slots=True)
class PilotRule(StoppingRule):
    """Stop at ``totals[k]`` responses, where k of the first ``num_pilot`` were positive: two rounds.

    After the pilot the counts alone do not say when sampling ends: with 12 responses, one of them right, a prompt whose
    pilot held that one may be at its end while another goes on. So this rule remembers the positives of the pilot, and
    its paths are counted branch by branch, a branch for each total. Every branch by itself is a walk over counts.

    Raises:
        ValueError: a total below the size of the pilot, or none at all.

    Example:
        >>> rule = PilotRule((2, 6, 2))  # two first; four more where they differ
        >>> rule.num_pilot, rule.n_max, rule.stops(0, 2), rule.stops(1, 1)
        (2, 6, True, False)
    """

    totals: tuple[int, ...]
    """Responses in all, by positives of the pilot, from 0 to ``num_pilot``."""
    is_screen: bool = False
    """Whether a prompt that gets no more than its pilot was turned down."""

    def __post_init__(self) -> None:
        """Check the totals."""
        if not self.totals or min(self.totals) < self.num_pilot:
            raise ValueError(
                f"a pilot of {self.num_pilot} responses needs a total of at least that for each of its outcomes; got "
                f"{self.totals}"
            )

    @property
    def num_pilot(self) -> int:
        """Responses of the pilot."""
        return len(self.totals) - 1

    @property
    def n_max(self) -> int:  # type: ignore[override]
        """Most responses that count as evidence."""
        return max(self.totals)

    def stops(self, num_positive: int, num_negative: int) -> bool:
        """Whether sampling ends at these counts after at least one of the pilots that can lead there."""
        num_sampled = num_positive + num_negative
        if num_sampled < self.num_pilot:
            return False
        fewest, most = max(0, self.num_pilot - num_negative), min(self.num_pilot, num_positive)
        return num_sampled >= self.n_max or num_sampled in self.totals[fewest : most + 1]

    def is_resolved(self, num_positive: int, num_negative: int) -> bool:
        """Whether the pilot let the prompt go on, where it is a screen."""
        return not self.is_screen or num_positive + num_negative > self.num_pilot

    def has_ended(self, outcomes: Sequence[bool]) -> bool:
        """Whether the total that the pilot decided on is reached."""
        return len(outcomes) >= self.num_pilot and len(outcomes) >= self.totals[sum(outcomes[: self.num_pilot])]

    def capped(self, n_max: int) -> PilotRule:
        """Cut off every total; with ``n_max`` inside the pilot all of them are ``n_max``."""
        kept = self.totals if n_max >= self.num_pilot else self.totals[: n_max + 1]
        return PilotRule(tuple(min(total, n_max) for total in kept), self.is_screen)

    def branches(self) -> tuple[PilotBranch, ...]:
        """Return one per distinct total."""
        return tuple(PilotBranch(self, total) for total in sorted(set(self.totals)))


@dataclass(frozen=True, slots=True)
class PilotBranch(Branch):
    """Prompts whose pilot decided on ``n_max`` responses. Counts alone say where each of them goes."""

    rule: PilotRule
    n_max: int

    def stops(self, num_positive: int, num_negative: int) -> bool:
        """Whether the total is reached, or the pilot is complete and decided on another."""
        num_sampled, num_pilot = num_positive + num_negative, self.rule.num_pilot
        if num_sampled == num_pilot and self.rule.totals[num_positive] != self.n_max:
            return True
        return num_sampled >= self.n_max

    def holds(self, num_positive: int, num_negative: int) -> bool:
        """Whether the pilot of such a walk decides on this total; true while it is not complete.

        A walk draws the class that it has more of first, and negatives where it has as many of both, as
        :func:`~ada_lightning.methods.objectives.support.supported_terms` takes it.
        """
        num_pilot = self.rule.num_pilot
        if num_positive + num_negative < num_pilot:
            return True
        in_pilot = min(num_positive, num_pilot) if num_positive > num_negative else max(0, num_pilot - num_negative)
        return self.rule.totals[in_pilot] == self.n_max

    def ends_at(self, num_positive: int, num_negative: int) -> bool:
        """Whether a prompt of this branch ends there: not where only a pilot ends that decided on another total."""
        num_sampled = num_positive + num_negative
        return num_sampled == self.n_max and (
            num_sampled > self.rule.num_pilot or self.rule.totals[num_positive] == self.n_max
        )
