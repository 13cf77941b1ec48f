"""A seeded shuffle per epoch, cut in order: any stretch of it follows from its place alone."""

from __future__ import annotations

import random
from functools import lru_cache


def epoch_positions(total: int, first: int, count: int, key: str) -> list[int]:
    """Return ``count`` positions of an endless walk over ``range(total)``, from its ``first`` one on.

    Each epoch of ``total`` steps of the walk visits everything once, in an order of its own.

    Args:
        total: how many there are, at least 1.
        first: steps of the walk before, from 0.
        count: how many to return.
        key: seed of the orders.

    Example:
        >>> third_epoch = epoch_positions(5, 10, 5, "0")
        >>> sorted(third_epoch), epoch_positions(5, 11, 2, "0") == third_epoch[1:3]
        ([0, 1, 2, 3, 4], True)
    """
    positions: list[int] = []
    while len(positions) < count:
        epoch, offset = divmod(first + len(positions), total)
        positions += _order(total, f"{key}/{epoch}")[offset : offset + count - len(positions)]
    return positions


@lru_cache(maxsize=8)
def _order(total: int, key: str) -> tuple[int, ...]:
    """Kept, because consecutive steps cut from the same order."""
    order = list(range(total))
    random.Random(key).shuffle(order)
    return tuple(order)
