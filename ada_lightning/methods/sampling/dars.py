"""DARS: more responses for prompts whose first ones say that they are hard (arXiv:2508.13755, equations of ET and HW).

Claim: the sum of absolute advantages of a prompt's group, which group methods silently weight prompts by, is restored
for hard prompts, so that they are no longer neglected. Assumption: the loss sums over responses (constant or token
mean); one that averages within a prompt undoes it. Degenerate case: a prompt with half of its pilot right or more gets
nothing further; one with nothing right is taken for half a right response.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ada_lightning.core.stopping.pilot import PilotRule
from ada_lightning.methods.sampling.pilot import PilotSampler


class DarsSampler(PilotSampler):
    """Responses in all: the fewest whose absolute advantages add up to those of an even prompt's pilot.

    With p the pilot's pass rate, n responses have ``n S(p)`` of it: ``S = 2 sqrt(p (1-p))`` where advantages are
    divided by their standard deviation, ``2 p (1-p)`` where not. An even prompt's pilot has ``A = N S(1/2)``. *Equal
    treatment* (ET) raises every prompt with p < 1/2 to A, *hardness weighted* (HW) to ``2 (1-p) A``.

    Args:
        num_pilot: responses of the first round (N).
        n_max: most responses of a prompt, both rounds together.
        hardness_weighted: HW instead of ET.
        normalize_std: whether the advantage that goes with it divides by the standard deviation (``grpo`` does,
            ``dr_grpo`` does not).
        group_size: most responses kept for the update; ``n_max`` where all of them train.

    Raises:
        ValueError: a value out of range or a switch that is no truth value; all in one message.

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

    def __init__(
        self, *, num_pilot: int, n_max: int, hardness_weighted: bool, normalize_std: bool, group_size: int
    ) -> None:
        errors = [
            f"{name} must be true or false; got {value!r}"
            for name, value in (("hardness_weighted", hardness_weighted), ("normalize_std", normalize_std))
            if not isinstance(value, bool)  # a word would count as true
        ]
        if num_pilot < 2:
            errors.append(f"num_pilot must be at least 2, so that responses can differ; got {num_pilot}")
        if n_max < num_pilot:
            errors.append(f"n_max = {n_max} is less than num_pilot = {num_pilot}; raise n_max")
        totals: tuple[int, ...] = (0,)
        if not errors:
            totals = tuple(
                min(n_max, _total(positives, num_pilot, hardness_weighted, normalize_std))
                for positives in range(num_pilot + 1)
            )
        super().__init__(PilotRule(totals), n_max=n_max, group_size=group_size, errors=errors)


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
