"""Divide a whole number of responses among prompts in proportion to weights, inside bounds."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction

from ada_lightning.core.checks import refuse


def allocate(weights: Sequence[float], total: int, lower: int, upper: int) -> list[int]:
    """Give each prompt ``clip(scale * weight, lower, upper)`` responses, with the one scale that spends ``total``.

    Weights are finite and not negative; only their ratios matter.

    That solution is found first, in exact fractions, and rounded down; what is left goes to the largest remainders, of
    which only shares strictly inside the bounds have any. So the sum is exact, no bound is broken, a larger weight
    never gets less, and no share moves by a whole response. Equal remainders go to the larger weight, then to the
    earlier prompt: the order of the prompts decides only among equal weights.

    A weight of 0 gets ``lower`` until every positive weight has ``upper``; what is left after that is shared equally by
    the zeros. If all weights are 0, the division is uniform.

    Raises:
        ValueError: a weight that is negative, infinite or NaN, bounds in the wrong order, or a total that no division
            inside the bounds can reach.

    Source:
        Largest remainders (Hamilton's method) on the bounded proportional division. The public code of Reinforce-Ada
        gives each prompt 1 and divides the rest the same way, without an upper bound (RLHFlow/Reinforce-Ada at e876f3e,
        branch ``hanze``: ``ray_trainer_ema.py`` L1014-1041).

    Example:
        >>> allocate([8.0, 1.0, 1.0, 0.5], total=16, lower=2, upper=8)
        [8, 3, 3, 2]
        >>> allocate([1.0, 1.0, 1.0], total=8, lower=1, upper=8)
        [3, 3, 2]
    """
    _check(weights, total, lower, upper)
    exact = [Fraction(weight) for weight in weights]
    num_positive = sum(weight > 0 for weight in exact)
    left_for_zeros = total - num_positive * upper
    if left_for_zeros >= (len(exact) - num_positive) * lower:
        zero_share = Fraction(left_for_zeros, max(len(exact) - num_positive, 1))
        shares = [Fraction(upper) if weight > 0 else zero_share for weight in exact]
    else:
        shares = _clipped_proportional(exact, total, lower, upper)
    return _by_largest_remainders(shares, exact, total)


def _check(weights: Sequence[float], total: int, lower: int, upper: int) -> None:
    errors = [
        f"weights must be finite and not negative; got {weight} at position {index}"
        for index, weight in enumerate(weights)
        if not (math.isfinite(weight) and weight >= 0)
    ]
    if lower < 0:
        errors.append(f"lower must not be negative; got {lower}")
    if lower > upper:
        errors.append(f"lower = {lower} exceeds upper = {upper}; swap them or raise upper")
    elif total < len(weights) * lower:
        errors.append(
            f"total = {total} is less than {len(weights)} prompts x lower = {lower}: "
            f"use a total of {len(weights) * lower} or a smaller lower bound"
        )
    elif total > len(weights) * upper:
        errors.append(
            f"total = {total} is more than {len(weights)} prompts x upper = {upper}: "
            f"use a total of {len(weights) * upper} or a larger upper bound"
        )
    refuse(*errors)


def _clipped_proportional(weights: Sequence[Fraction], total: int, lower: int, upper: int) -> list[Fraction]:
    """Real-valued shares; some weight is positive and ``total`` lies in reach of some scale.

    The sum of shares grows with the scale, linearly between the scales at which some share meets a bound.
    """

    def shares(scale: Fraction) -> list[Fraction]:
        return [min(max(scale * weight, Fraction(lower)), Fraction(upper)) for weight in weights]

    def spent(scale: Fraction) -> Fraction:
        return sum(shares(scale), Fraction(0))

    scales = sorted({bound / weight for weight in weights if weight > 0 for bound in (lower, upper)})
    above = bisect_left(scales, Fraction(total), key=spent)
    if above == 0:
        return shares(scales[0])
    spent_below = spent(scales[above - 1])
    position = (total - spent_below) / (spent(scales[above]) - spent_below)
    return shares(scales[above - 1] + position * (scales[above] - scales[above - 1]))


def _by_largest_remainders(shares: Sequence[Fraction], weights: Sequence[Fraction], total: int) -> list[int]:
    counts = [math.floor(share) for share in shares]
    order = sorted(range(len(shares)), key=lambda index: (counts[index] - shares[index], -weights[index], index))
    for index in order[: total - sum(counts)]:
        counts[index] += 1
    return counts
