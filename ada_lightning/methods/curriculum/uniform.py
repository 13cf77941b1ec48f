"""Every prompt once per epoch: no curriculum."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.options import option
from ada_lightning.core.protocols import Curriculum, Recall
from ada_lightning.core.records import Prompt
from ada_lightning.methods.curriculum.draws import shuffled

MOST_BY_PYTHON = 100_000
"""Prompts above which numpy shuffles an epoch: Python takes half a second for a million."""


@option("curriculum", "uniform")
class UniformCurriculum(Curriculum):
    """Every training prompt once per epoch, in a new seeded order each time; steps follow that order.

    A function of step and seed alone: nothing is asked about the prompts. A step across the end of an epoch can hold a
    prompt of both.

    Example:
        >>> prompts = [Prompt(name, ()) for name in "abcd"]
        >>> epoch = [UniformCurriculum().choose(prompts, 2, step=step, seed=0, recall=lambda _: []) for step in (0, 1)]
        >>> sorted(prompt.prompt_id for step in epoch for prompt in step)
        ['a', 'b', 'c', 'd']
    """

    def choose(
        self, prompts: Sequence[Prompt], num_prompts: int, *, step: int, seed: int, recall: Recall
    ) -> list[Prompt]:
        """Return the next ``num_prompts`` of the epochs; ``recall`` is not called."""
        positions = epoch_positions(len(prompts), step * num_prompts, num_prompts, str(seed))
        return [prompts[position] for position in positions]

    def num_candidates(self, num_prompts: int) -> int:
        """Return the same number: nothing of a stream is passed over."""
        return num_prompts


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
        positions += _order(total, f"{key}/{epoch}")[offset : offset + count - len(positions)].tolist()
    return positions


@lru_cache(maxsize=4)
def _order(total: int, key: str) -> NDArray[np.int32]:
    """Kept, because consecutive steps cut from the same order: 4 bytes a prompt."""
    if total > MOST_BY_PYTHON:
        return shuffled(total, key)
    order = list(range(total))
    random.Random(key).shuffle(order)
    return np.array(order, dtype=np.int32)
