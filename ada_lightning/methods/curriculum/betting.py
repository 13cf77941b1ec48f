"""A bet that chosen prompts are worth more than uniform ones: exact at any time, whatever drifts.

The unit is the block: one control group, and the share of the step's chosen groups that stands against it. A block's
difference is the mean worth of its chosen groups minus the worth of its control group. A gambler stakes part of a
wealth on the difference being above 0. The stake is fixed before the step, from earlier blocks alone. So under the
hypothesis "in mean the difference is at most 0, at every step" the wealth is a nonnegative supermartingale. The
chance that it ever reaches ``1 / alpha`` is at most alpha (Ville's inequality). Nothing has to stand still for that.

Source:
    Betting as a test of bounded means: Waudby-Smith and Ramdas, arXiv:2010.09686. Blocks of chosen and control groups
    are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

_IMAGINED_BLOCKS = 8.0
"""Blocks of mean 0 that every bet begins with, so that the first real ones do not decide a stake alone (ours)."""
_IMAGINED_SQUARE = 0.2
"""Their mean square: that of a difference between groups of four (ours)."""
LARGEST_LOSS = 0.75
"""The most of the wealth that one block can cost (ours); below 1, so that no block ends the bet."""


@dataclass(slots=True)
class Bet:
    """One gambler's wealth against "the mean difference is at most 0", or with ``sign=-1`` "at least 0".

    Example:
        >>> bet = Bet()
        >>> for _ in range(10):
        ...     bet.settle([0.2, 0.2, 0.3], bound=1.326923)
        >>> round(bet.log_wealth, 6)  # above log 20 = 2.995732
        3.230992
    """

    sign: int = 1
    log_wealth: float = 0.0
    """Natural logarithm; 0 at the start."""
    total: float = 0.0
    """Sum of the differences so far."""
    total_square: float = _IMAGINED_BLOCKS * _IMAGINED_SQUARE
    count: float = _IMAGINED_BLOCKS

    def stake(self, bound: float) -> float:
        """Return the share of the wealth to bet on each unit of difference, given that none is as large as ``bound``.

        About the stake that makes the wealth grow fastest for differences as seen so far; never more than what loses
        :data:`LARGEST_LOSS` in the worst block, and never a bet on the other side.
        """
        return min(max(self.sign * self.total / self.total_square, 0.0), LARGEST_LOSS / bound)

    def settle(self, differences: Sequence[float], bound: float) -> None:
        """Bet on the blocks of one step, all at the same stake, and learn from them.

        Args:
            differences: of the blocks: mean worth of the chosen groups minus that of the control group.
            bound: what no difference can reach in size, positive; fixed before the step.

        Raises:
            ValueError: a difference reaches the bound, so that the guarantee would not hold.
        """
        values = np.asarray(differences, dtype=np.float64)
        if not (np.abs(values) < bound).all():
            raise ValueError(f"differences of blocks must be below the bound {bound:g} in size; got {differences}")
        self.log_wealth += float(np.log1p(self.sign * self.stake(bound) * values).sum())
        self.total += float(values.sum())
        self.total_square += float(values @ values)
        self.count += len(values)

    def forgive(self) -> None:
        """Begin again at a wealth of 1 where it has fallen below: a watch for a change that has yet to come."""
        self.log_wealth = max(self.log_wealth, 0.0)

    def state_dict(self) -> dict[str, Any]:
        """All of it, as JSON holds it."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the bet that :meth:`state_dict` was taken of."""
        return cls(**state)
