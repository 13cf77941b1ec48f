"""Draws and choices among all prompts at once: the same as one by one, in columns."""

from __future__ import annotations

import random
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.prompt_columns import Flags, Floats

Positions = NDArray[np.int64]


def uniform_draws(generator: random.Random, count: int) -> Floats:
    """Return what so many calls of ``generator.random()`` return, and leave the generator behind them.

    Example:
        >>> uniform_draws(random.Random(0), 2).tolist() == [random.Random(0).random(), 0.7579544029403025]
        True
    """
    version, (*key, place), gauss = generator.getstate()
    twister = np.random.RandomState()
    twister.set_state(("MT19937", np.array(key, dtype=np.uint32), place, 0, 0.0))
    drawn: Floats = twister.random_sample(count)
    behind = twister.get_state(legacy=False)["state"]
    generator.setstate((version, (*behind["key"].tolist(), behind["pos"]), gauss))
    return drawn


def largest(keys_P: Floats, count: int, *, first: Flags | None = None) -> Positions:
    """Return where the largest keys stand, in descending order; of equal ones the last comes first.

    Args:
        keys_P: to compare. Shape ``(P,)``.
        count: how many to return, at most P.
        first: those that come before all others; None where none do. Shape ``(P,)``.

    Example:
        >>> largest(np.array([1.0, 5.0, 3.0]), 2).tolist()
        [1, 2]
        >>> largest(np.array([1.0, 5.0, 3.0]), 2, first=np.array([True, False, False])).tolist()
        [0, 1]
    """
    if first is not None:
        ahead = np.flatnonzero(first)
        before = ahead[largest(keys_P[ahead], min(count, len(ahead)))]
        behind = np.flatnonzero(~first)
        return np.concatenate([before, behind[largest(keys_P[behind], count - len(before))]])
    if count == 0:
        return np.empty(0, dtype=np.int64)
    least = np.partition(keys_P, len(keys_P) - count)[len(keys_P) - count]
    enough = np.flatnonzero(keys_P >= least)[::-1]
    chosen: Positions = enough[np.argsort(-keys_P[enough], kind="stable")][:count]
    return chosen


def shuffled(total: int, key: str) -> NDArray[np.int32]:
    """Return the numbers below ``total`` in an order of their own for each key, in a few milliseconds a million.

    Source:
        numpy's ``RandomState``, whose streams do not change between versions (NEP 19).
    """
    twister = np.random.RandomState(np.frombuffer(sha256(key.encode()).digest(), dtype="<u4"))
    order = np.arange(total, dtype=np.int32)
    twister.shuffle(order)
    return order
