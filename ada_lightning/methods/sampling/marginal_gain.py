"""Divide a whole number of responses among prompts by what one more response is worth to each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace

_ROUNDING = 1e-9
"""By how much of itself a gain may seem to rise: rounding of floats, far below any difference that matters."""


def allocate_by_gain(
    gain: Callable[[int, int], float], total: int, lower: Sequence[int], upper: Sequence[int]
) -> list[int]:
    """Give every prompt its lower bound, then each further response to whoever gains most from it, up to ``total``.

    ``gain(index, n)`` is what response ``n + 1`` adds to the value of the prompt at ``index``, in any unit.

    Where gains fall with the number of responses (the value is concave), no division of the same total inside the same
    bounds is worth more (Fox, 1966, "Discrete optimization via marginal analysis"): the exact optimum at the price of a
    sort, ``O(total log P)``. Equal gains go to the earlier prompt, so the result is a function of its arguments.

    Raises:
        ValueError: bounds that contradict each other, a total that they cannot meet, a gain that is not finite, or one
            that rises with the number of responses, for which this division would not be the best one.

    Example:
        >>> allocate_by_gain(lambda index, n: [1.0, 4.0][index] / (n + 1), 10, [1, 1], [8, 8])
        [2, 8]
    """
    _check(total, lower, upper)
    counts = list(lower)
    heap = [(-_finite(gain, index, n), index) for index, n in enumerate(counts) if n < upper[index]]
    heapify(heap)
    for _ in range(total - sum(lower)):
        negative_gain, index = heap[0]
        counts[index] += 1
        if counts[index] == upper[index]:
            heappop(heap)
            continue
        following = _finite(gain, index, counts[index])
        if following + negative_gain > _ROUNDING * abs(negative_gain):
            raise ValueError(
                f"the gain of prompt {index} rises from {-negative_gain} to {following} at {counts[index]} responses: "
                "the best division is found for gains that fall; raise the lower bound to where they do"
            )
        heapreplace(heap, (-following, index))
    return counts


def spread_evenly(surplus: int, counts: list[int], indices: Sequence[int], n_max: int) -> int:
    """Add to some counts in equal parts, as far as each has room below ``n_max``; what is left goes to earlier ones.

    Returns:
        How much was given: all of it, or what there was room for.

    Example:
        >>> counts = [7, 0, 0, 3]
        >>> spread_evenly(8, counts, [0, 1, 2], n_max=8), counts
        (8, [8, 4, 3, 3])
    """
    room = [n_max - counts[index] for index in indices]
    given = min(surplus, sum(room))
    extras = allocate_by_gain(lambda position, n: -n, given, [0] * len(room), room)
    for index, extra in zip(indices, extras, strict=True):
        counts[index] += extra
    return given


def _finite(gain: Callable[[int, int], float], index: int, n: int) -> float:
    value = gain(index, n)
    if not math.isfinite(value):
        raise ValueError(
            f"the gain of prompt {index} at {n} responses is {value}; it must be finite: is its predicted pass rate?"
        )
    return value


def _check(total: int, lower: Sequence[int], upper: Sequence[int]) -> None:
    errors = [
        f"bounds of prompt {index} must be 0 <= lower <= upper; got lower = {low}, upper = {high}"
        for index, (low, high) in enumerate(zip(lower, upper, strict=True))
        if not 0 <= low <= high
    ]
    if total < sum(lower):
        errors.append(
            f"total = {total} is less than the lower bounds of {len(lower)} prompts together: use a total of "
            f"{sum(lower)} or smaller lower bounds"
        )
    elif total > sum(upper):
        errors.append(
            f"total = {total} is more than the upper bounds of {len(upper)} prompts together: use a total of "
            f"{sum(upper)} or larger upper bounds"
        )
    if errors:
        raise ValueError("; ".join(errors))
