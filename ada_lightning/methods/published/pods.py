"""PODS: many responses are drawn, the few whose rewards differ most train (arXiv:2504.13818).

Fidelity: faithful, max-variance down-sampling. The epsilon of the standard deviation is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ada_lightning.core.options import option, use
from ada_lightning.core.protocols import Selection
from ada_lightning.core.records import KeptResponse, Response, ResponsePool
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.checked import Check, Checked
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection.weights import with_selection_weights

_RELATIVE_TIE = 1e-12
"""Sums of squares that differ by less than this share of the largest one are equal up to rounding."""


@option("selection", "max_variance")
@dataclass(kw_only=True, eq=False)
class MaxVarianceSelection(Checked, Selection):
    """The responses whose rewards differ most (PODS, arXiv:2504.13818): some of the best, the rest of the worst.

    ``advantage=grpo`` compares with the mean of what is kept, as the paper does; ``advantage=official`` with that of
    the pool, as Reinforce-Ada does.

    The claim: generating is cheap and parallel, updating is not, and the subset with the most contrast carries most of
    the gradient; training on m of n then takes less time for the same accuracy. The best subset of size m consists of
    the i highest and m - i lowest rewards for some i (their theorem), so sorting and prefix sums find it in
    ``O(n log n)``. Rewards may have any values. With rewards of 0 and 1 it keeps m/2 of each class where both are
    there, all of a rarer class otherwise: :class:`~ada_lightning.methods.selection.BalancedSelection`, except for odd
    m.

    Assumed: that more contrast is a better estimate. It is another one: a prompt's share of positives is about 1/2 in
    what trains, whatever its pass rate.

    Degenerate: a pool of at most m is kept whole; in one of equal rewards the first generated are kept, without signal.
    Of equal rewards the first generated are kept, of equally good i the smallest is taken.

    Example:
        >>> from ada_lightning.core.records import Prompt, ResponsePool
        >>> MaxVarianceSelection(group_size=4).select(ResponsePool(Prompt("x", ()), slot=0))
        ()
    """

    group_size: int = 4
    """Responses kept per prompt (m), fewer where the pool is smaller; the sampler draws n (PODS: 16 of 64, 32 of
    128)."""

    def _checks(self) -> Iterator[Check]:
        yield (
            self.group_size >= 2,
            f"group_size must be at least 2, one response has no variance; got {self.group_size}; use group_size=2",
        )

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses, highest rewards first, equal ones in launch order."""
        kept = sorted(pool.trainable(), key=_descending)
        if len(kept) > self.group_size:
            num_highest = best_num_highest([response.reward for response in kept], self.group_size)
            # Of the lowest rewards too the first generated: the end of the list holds the last ones of an equal run.
            lowest = sorted(kept[num_highest:], key=lambda response: (response.reward, response.sample_index))
            kept = kept[:num_highest] + sorted(lowest[: self.group_size - num_highest], key=_descending)
        return with_selection_weights(pool, kept)

    def caveat(self) -> str:
        """Say what it does to the update."""
        return (
            f"selection: the {self.group_size} rewards of a pool that differ most train; their share of positives is "
            "not the pool's"
        )


def _descending(response: Response) -> tuple[float, int]:
    return -response.reward, response.sample_index


def best_num_highest(descending: Sequence[float], num_kept: int) -> int:
    """Find how many of the highest rewards belong to the subset of largest variance; the rest are the lowest.

    The smallest of the best numbers, in [1, ``num_kept - 1``]: a subset of one end alone is never better, since moving
    its innermost reward to the other end raises the variance.

    Example:
        >>> best_num_highest([1, 1, 0, 0, 0, 0, 0, 0], 4), best_num_highest([1, 0, 0, 0, 0, 0, 0, 0], 4)
        (2, 1)
    """
    values = np.array(descending) - np.mean(descending)  # sums of squares cancel less around the mean
    sums, squares = (np.concatenate([[0.0], np.cumsum(values**power)]) for power in (1, 2))
    num_highest = np.arange(1, num_kept)
    first_low = len(values) - num_kept + num_highest
    total, square = (each[num_highest] + each[-1] - each[first_low] for each in (sums, squares))
    deviations = square - total**2 / num_kept
    is_best = deviations >= deviations.max() - _RELATIVE_TIE * squares[-1]
    return int(num_highest[is_best][0])


PODS = known(
    Recipe(
        name="pods",
        card=Card(
            table="training",
            changes="trains on the m of n responses whose rewards vary most",
            needs="n > m",
            cost="n drawn, m trained",
            fidelity="faithful",
            departs=(
                "The epsilon of the standard deviation is ours. `advantage=official` takes the baseline from the pool."
            ),
        ),
        checked=Comparison(
            rule="the subset of the largest variance",
            against="brute force",
            test="unit/methods/selection/test_max_variance.py::test_no_subset_has_a_larger_variance",
        ),
        text="""
            PODS (arXiv:2504.13818): many responses are drawn, and the few whose rewards vary most train. Rewards are
            standardised among these few. The paper draws 64 and trains on 16.
        """,
        sampler=use(UniformSampler, group_size=16),
        selection=MaxVarianceSelection,
        advantage=GroupNormalizedAdvantage,
        reduction="response_mean",
    )
)
