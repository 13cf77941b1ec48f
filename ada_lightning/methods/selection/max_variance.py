"""The subset of a pool whose rewards differ most (PODS)."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.core.protocols import Selection
from ada_lightning.core.records import KeptResponse, Response, ResponsePool
from ada_lightning.methods.selection.weights import with_selection_weights

_RELATIVE_TIE = 1e-12
"""Sums of squares that differ by less than this share of the largest one are equal but for rounding."""


class MaxVarianceSelection(Selection):
    """Keeps the ``group_size`` responses with the largest variance of rewards: some of the best, the rest of the worst.

    The claim: generating is cheap and parallel, updating is not, and the subset with the most contrast carries most of
    the gradient; training on m of n then takes less time for the same accuracy. The best subset of size m consists of
    the i highest and m - i lowest rewards for some i (their theorem), so sorting and prefix sums find it in
    ``O(n log n)``. Rewards may have any values. With rewards of 0 and 1 it keeps m/2 of each class where both are
    there, all of a rarer class otherwise: :class:`~ada_lightning.methods.selection.BalancedSelection` but for odd m.

    Assumed: that more contrast is a better estimate. It is another one: a prompt's share of positives is about 1/2 in
    what trains, whatever its pass rate. ``advantage=grpo`` compares with the mean of the subset, as the paper does,
    ``advantage=official`` with the mean of the pool, as Reinforce-Ada does.

    Degenerate: a pool of at most m is kept whole; in one of equal rewards the first generated are kept, without signal.
    Of equal rewards the first generated are kept, of equally good i the smallest is taken.

    Args:
        group_size: responses kept per prompt (m), fewer where the pool is smaller.

    Raises:
        ValueError: ``group_size`` below 2: one response has no variance.

    Source:
        PODS, arXiv:2504.13818, max-variance down-sampling.

    Example:
        >>> from ada_lightning.core.records import Prompt, ResponsePool
        >>> MaxVarianceSelection(group_size=4).select(ResponsePool(Prompt("x", ()), slot=0))
        ()
    """

    def __init__(self, *, group_size: int) -> None:
        if group_size < 2:
            raise ValueError(
                f"group_size must be at least 2, one response has no variance; got {group_size}; use group_size=2"
            )
        self.group_size = group_size

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses, highest rewards first, equal ones in launch order."""
        descending = sorted(pool.trainable(), key=lambda response: (-response.reward, response.sample_index))
        if len(descending) > self.group_size:
            descending = self._extremes(descending)
        return with_selection_weights(pool, descending)

    def bend(self) -> str:
        """Say what it does to the update."""
        return (
            f"selection: the {self.group_size} rewards of a pool that differ most train; their share of positives is "
            "not the pool's"
        )

    def _extremes(self, descending: Sequence[Response]) -> list[Response]:
        num_highest = best_num_highest([response.reward for response in descending], self.group_size)
        highest = list(descending[:num_highest])
        num_lowest = self.group_size - num_highest
        # Of the lowest rewards too the first generated: the end of the list holds the last ones of an equal run.
        rest = sorted(descending[num_highest:], key=lambda response: (response.reward, response.sample_index))
        lowest = sorted(rest[:num_lowest], key=lambda response: (-response.reward, response.sample_index))
        return highest + lowest


def best_num_highest(descending: Sequence[float], num_kept: int) -> int:
    """Find how many of the highest rewards belong to the subset of largest variance; the rest are the lowest.

    Args:
        descending: rewards, sorted from high to low, more than ``num_kept``.
        num_kept: size of the subset, at least 2.

    Returns:
        The smallest of the best numbers, in [1, ``num_kept - 1``]: a subset of one end alone is never better, since
        moving its innermost reward to the other end raises the variance.

    Example:
        >>> best_num_highest([1, 1, 0, 0, 0, 0, 0, 0], 4), best_num_highest([1, 0, 0, 0, 0, 0, 0, 0], 4)
        (2, 1)
    """
    center = sum(descending) / len(descending)  # sums of squares cancel less around it
    sums, squares = [0.0], [0.0]
    for reward in descending:
        sums.append(sums[-1] + reward - center)
        squares.append(squares[-1] + (reward - center) ** 2)
    tie = _RELATIVE_TIE * squares[-1]
    best, best_deviation = 1, -1.0
    for num_highest in range(1, num_kept):
        first_low = len(descending) - (num_kept - num_highest)
        total = sums[num_highest] + sums[-1] - sums[first_low]
        square = squares[num_highest] + squares[-1] - squares[first_low]
        deviation = square - total * total / num_kept
        if deviation > best_deviation + tie:
            best, best_deviation = num_highest, deviation
    return best
