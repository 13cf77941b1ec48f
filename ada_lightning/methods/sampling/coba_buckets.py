"""How the public code of CoBA-RL divides a step, which its paper does not say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ada_lightning.methods.sampling.marginal_gain import spread_evenly

_HARD_BELOW = 0.05
_EASY_ABOVE = 0.99
_LARGEST_SHARE = 0.8
_SMALLEST_SHARE = 0.6
"""Share of what is left above the lower bounds that goes to prompts between the two, by how many of them there are."""
_MARGIN = 1e-6
"""Pass rates keep this distance from 1 where hard prompts are weighed by failures."""


def divide_by_buckets(
    rates: Sequence[float],
    total: int,
    *,
    n_min: int,
    n_max: int,
    by_value: Callable[[Sequence[float], int], list[int]],
) -> list[int]:
    """Give pass rates in [0.05, 0.99] most of the step by their value, and the rest to hard, middling, easy prompts.

    Within a bucket the rest is given by failure rate, in the code's loop, which favours earlier prompts. The code can
    leave responses undrawn where a bucket is full; here the division is repeated until the total is met.

    ``by_value`` divides a total among given pass rates within the same bounds.

    Source:
        Within-yao/CoBA-RL at aa6b834a: ``allocate``, ``_allocate_remaining_weighted`` of
        ``recipe/coba_rl/budget_allocators.py``.
    """
    hard = [index for index, rate in enumerate(rates) if rate < _HARD_BELOW]
    easy = [index for index, rate in enumerate(rates) if rate > _EASY_ABOVE]
    middling = [index for index, rate in enumerate(rates) if not (rate < _HARD_BELOW or rate > _EASY_ABOVE)]
    counts = [n_min] * len(rates)
    rest = total - sum(counts)
    if middling:
        invested = min(int(rest * _share(len(middling) / len(rates))), len(middling) * (n_max - n_min))
        planned = by_value([rates[index] for index in middling], len(middling) * n_min + invested)
        for index, count in zip(middling, planned, strict=True):
            counts[index] = count
        rest -= invested
    for bucket in (hard, middling, easy):
        rest -= _give_by_failures(rest, bucket, rates, counts, n_max)
    spread_evenly(rest, counts, range(len(counts)), n_max)
    return counts


def _share(middling: float) -> float:
    """0.6 where there are none of them, 0.8 from one half on."""
    return _SMALLEST_SHARE + (_LARGEST_SHARE - _SMALLEST_SHARE) * min(2.0 * middling, 1.0)


def _give_by_failures(rest: int, bucket: Sequence[int], rates: Sequence[float], counts: list[int], n_max: int) -> int:
    """Each prompt in turn takes its share of what is then left; what remains goes evenly. Return how much was given."""
    open_ones = [index for index in bucket if counts[index] < n_max]
    weights = [1.0 - min(max(rates[index], _MARGIN), 1.0 - _MARGIN) for index in open_ones]
    left = rest
    for index, weight in zip(open_ones, weights, strict=True):
        extra = min(int(left * weight / sum(weights)), n_max - counts[index])
        counts[index] += extra
        left -= extra
    return rest - left + int(spread_evenly(left, counts, open_ones, n_max))
