"""Advantages over the whole pool, by which several selections rank or prune responses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ada_lightning.core.protocols import Selection
from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.checked import Check, Checked
from ada_lightning.methods.functional import centered, unbiased_std


@dataclass(kw_only=True, eq=False)
class AdvantageSelection(Checked, Selection):
    """Leaves out some responses of little advantage, before anything trains."""

    rate: float = 0.5
    """Share or probability that is left out, in [0, 1)."""

    def _checks(self) -> Iterator[Check]:
        yield 0 <= self.rate < 1, f"selection.rate must be in [0, 1), the share that is pruned; got {self.rate}"


def pool_advantages(pool: ResponsePool, *, normalize_std: bool) -> list[float]:
    """Advantage of every response of a pool, before anything is selected: reward minus the mean over all of them.

    The same numbers that :class:`~ada_lightning.methods.advantages.PoolMeanAdvantage` computes later for those that are
    kept, over the pool's standard deviation (unbiased, plus 1e-6) if asked. Responses that may not train count in that
    mean too. All are exactly 0 where all rewards are equal, whatever float rounding makes of their mean.
    """
    if not pool.has_signal:
        return [0.0] * pool.num_sampled
    rewards = np.array([response.reward for response in pool.responses])
    scale = unbiased_std(rewards) + 1e-6 if normalize_std else 1.0
    advantages: list[float] = (centered(rewards) / scale).tolist()
    return advantages


def by_magnitude(pools: Sequence[ResponsePool], *, normalize_std: bool) -> list[tuple[int, int]]:
    """(pool, response) of all that may train, by position, the largest absolute advantage first.

    Those that are equal up to rounding come in the order of pools and launches.
    """
    ranked = sorted(
        (-round(abs(advantage), 9), position, index)
        for position, pool in enumerate(pools)
        for index, advantage in enumerate(pool_advantages(pool, normalize_std=normalize_std))
        if not pool.responses[index].is_masked
    )
    return [(position, index) for _, position, index in ranked]


def floor_share(total: int, share: float) -> int:
    """Return ``floor(total * share)``, whatever float rounding makes of the product.

    Example:
        >>> floor_share(10, 1.0 - 0.9), int(10 * (1.0 - 0.9))
        (1, 0)
    """
    return int(total * share + 1e-9)
