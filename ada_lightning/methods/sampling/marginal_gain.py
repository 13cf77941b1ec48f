"""Divides a whole number of responses among prompts by the gain from one more response to each."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace

from ada_lightning.core.checks import refuse

_ROUNDING = 1e-9
"""By how much of itself a gain may seem to rise: rounding of floats, far below any difference that matters."""


def allocate_by_gain(
    gain: Callable[[int, int], float],
    total: float,
    lower: Sequence[int],
    upper: Sequence[int],
    *,
    costs: Sequence[float] | None = None,
) -> list[int]:
    """Give every prompt its lower bound, then each further response to whoever gains most from it, up to ``total``.

    ``gain(index, n)`` is what response ``n + 1`` adds to the value of the prompt at ``index``, in any unit.

    If gains fall with the number of responses (the value is concave), this is the exact optimum: no division of the
    same total inside the same bounds has a higher value (Fox, 1966, "Discrete optimization via marginal analysis"). It
    takes a sort, ``O(total log P)``. Equal gains go to the earlier prompt, so the result is a function of its
    arguments.

    With ``costs`` a response to the prompt at ``index`` takes ``costs[index]`` of the total and goes to whoever gains
    most from it *by its cost*. Where that one no longer fits, the division ends: less than one response is left, and no
    division that costs as little is worth more (Everett, 1963, "Generalized Lagrange multiplier method").

    Raises:
        ValueError: bounds that contradict each other, a total that they cannot meet, a cost that is not positive and
            finite, or a gain that is not finite. Also a gain that rises with the number of responses, for which this
            division would not be the best one.

    Example:
        >>> allocate_by_gain(lambda index, n: [1.0, 4.0][index] / (n + 1), 10, [1, 1], [8, 8])
        [2, 8]
        >>> allocate_by_gain(lambda index, n: 1.0 / (n * (n + 1)), 30, [1, 1], [20, 20], costs=[1.0, 4.0])
        [10, 5]
    """
    prices = [1] * len(lower) if costs is None else costs
    _check(total, lower, upper, prices)
    counts = list(lower)
    left = total - sum(map(operator.mul, prices, lower))
    if costs is not None:
        left += _ROUNDING * total
    heap = [(-_finite(gain, index, n) / prices[index], index) for index, n in enumerate(counts) if n < upper[index]]
    heapify(heap)
    while heap and prices[heap[0][1]] <= left:
        negative_gain, index = heap[0]
        counts[index] += 1
        left -= prices[index]
        if counts[index] == upper[index]:
            heappop(heap)
            continue
        following = _finite(gain, index, counts[index]) / prices[index]
        if following + negative_gain > _ROUNDING * abs(negative_gain):
            raise ValueError(
                f"the gain of prompt {index} rises from {-negative_gain} to {following} at {counts[index]} responses: "
                "this division needs falling gains; raise the lower bound to where they fall"
            )
        heapreplace(heap, (-following, index))
    return counts


def spread_evenly(
    surplus: float, counts: list[int], indices: Sequence[int], n_max: int, *, costs: Sequence[float] | None = None
) -> float:
    """Add to some counts in equal parts, as far as each has room below ``n_max``; what is left goes to earlier ones.

    Args:
        surplus: what there is to give.
        counts: of all prompts; changed in place.
        indices: of those that get something.
        n_max: most that each may have.
        costs: of a response to each of all prompts, in the unit of the surplus; None: 1.

    Returns:
        How much was given: all of it, or what there was room for; with costs less than one response may be left.

    Example:
        >>> counts = [7, 0, 0, 3]
        >>> spread_evenly(8, counts, [0, 1, 2], n_max=8), counts
        (8, [8, 4, 3, 3])
    """
    room = [n_max - counts[index] for index in indices]
    prices = [1] * len(room) if costs is None else [costs[index] for index in indices]
    given = min(surplus, sum(map(operator.mul, prices, room)))
    extras = allocate_by_gain(
        lambda position, n: -n * prices[position], given, [0] * len(room), room, costs=None if costs is None else prices
    )
    for index, extra in zip(indices, extras, strict=True):
        counts[index] += extra
    return sum(map(operator.mul, prices, extras))


def _finite(gain: Callable[[int, int], float], index: int, n: int) -> float:
    value = gain(index, n)
    if not math.isfinite(value):
        raise ValueError(
            f"the gain of prompt {index} at {n} responses is {value}; it must be finite: is its predicted pass rate?"
        )
    return value


def _check(total: float, lower: Sequence[int], upper: Sequence[int], prices: Sequence[float]) -> None:
    errors = [
        f"bounds of prompt {index} must be 0 <= lower <= upper; got lower = {low}, upper = {high}"
        for index, (low, high) in enumerate(zip(lower, upper, strict=True))
        if not 0 <= low <= high
    ]
    if wrong := [price for price in prices if not 0 < price < math.inf]:
        errors.append(f"a response must cost a positive and finite number; got {wrong[0]}")
    least, most = sum(map(operator.mul, prices, lower)), sum(map(operator.mul, prices, upper))
    if total < least * (1 - _ROUNDING):
        errors.append(
            f"total = {total} is less than the lower bounds of {len(lower)} prompts together: use a total of "
            f"{least} or smaller lower bounds"
        )
    elif total > most * (1 + _ROUNDING):
        errors.append(
            f"total = {total} is more than the upper bounds of {len(upper)} prompts together: use a total of "
            f"{most} or larger upper bounds"
        )
    refuse(*errors)
