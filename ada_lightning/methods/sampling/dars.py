"""DARS: more responses for prompts whose first ones say that they are hard (arXiv:2508.13755, equations of ET and HW).

Claim: the sum of absolute advantages of a prompt's group, which group methods silently weight prompts by, is restored
for hard prompts, so that they are no longer neglected. Assumption: the loss sums over responses (constant or token
mean); one that averages within a prompt undoes it. Degenerate case: a prompt with half of its pilot right or more gets
nothing further; one with nothing right is taken for half a right response.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ada_lightning.core.stopping.rule import PilotRule
from ada_lightning.methods.checked import Check
from ada_lightning.methods.sampling.pilot import PilotSampler


@dataclass(kw_only=True, eq=False)
class DarsSampler(PilotSampler):
    """Responses in all: the fewest whose absolute advantages add up to those of an even prompt's pilot.

    With p the pilot's pass rate, n responses have ``n S(p)`` of it: ``S = 2 sqrt(p (1-p))`` where advantages are
    divided by their standard deviation, ``2 p (1-p)`` where not. An even prompt's pilot has ``A = N S(1/2)``. *Equal
    treatment* (ET) raises every prompt with p < 1/2 to A, *hardness weighted* (HW) to ``2 (1-p) A``.

    Source:
        Yang et al., arXiv:2508.13755; authors' code ``ray_dars_trainer.py`` (``schedule_ET``, ``schedule_HW``). Rounded
        up in exact arithmetic here: 7.5 / (15 / 128) is 64 responses, and in floating point it may be 65.

    Example:
        >>> sampler = DarsSampler(
        ...     num_pilot=8, n_max=32, hardness_weighted=False, normalize_std=True, group_size=32
        ... )
        >>> sampler.rule.totals  # 9, 5, 2 and 1 more for 0 to 3 right ones of 8
        (17, 13, 10, 9, 8, 8, 8, 8, 8)
    """

    num_pilot: int
    """Responses of the first round (N)."""
    n_max: int
    """Most responses of a prompt, both rounds together."""
    hardness_weighted: bool
    """HW instead of ET."""
    normalize_std: bool
    """Whether the advantage that goes with it divides by the standard deviation (``grpo`` does, ``dr_grpo`` not)."""

    def _checks(self) -> Iterator[Check]:
        yield self.num_pilot >= 2, f"num_pilot must be at least 2, so that responses can differ; got {self.num_pilot}"
        yield (
            self.n_max >= self.num_pilot,
            f"n_max = {self.n_max} is less than num_pilot = {self.num_pilot}; raise n_max",
        )
        yield self.keeps_at_most(self.n_max)

    def make_rule(self) -> PilotRule:
        """Apply ET or HW, up to ``n_max``."""
        totals = (
            _total(positives, self.num_pilot, self.hardness_weighted, self.normalize_std)
            for positives in range(self.num_pilot + 1)
        )
        return PilotRule(tuple(min(self.n_max, total) for total in totals))


def _total(positives: int, num_pilot: int, hardness_weighted: bool, normalize_std: bool) -> int:
    """Return the least n with ``n S(p) >= target``, at least the pilot. Exact: both sides are compared squared."""
    rate = Fraction(positives, num_pilot) if positives else Fraction(1, 2 * num_pilot)
    if rate >= Fraction(1, 2):
        return num_pilot
    target = (2 * (1 - rate) if hardness_weighted else Fraction(1)) * num_pilot
    spread = rate * (1 - rate)
    if not normalize_std:  # S(1/2) is 1/2 here and 1 there
        return max(num_pilot, math.ceil(target / 2 / (2 * spread)))
    squared = target**2 / (4 * spread)  # of target / S
    root = math.isqrt(squared.numerator // squared.denominator)
    return max(num_pilot, root if Fraction(root) ** 2 == squared else root + 1)
