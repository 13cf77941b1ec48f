from __future__ import annotations

import random

import pytest

from ada_lightning.methods.curriculum import UniformCurriculum
from tests.unit.methods.curriculum.histories import ids, prompts


def order_before_there_were_curricula(total, size, step, seed):
    """How a step's prompts were drawn when nothing could be chosen: runs of that time continue with the same ones."""
    chosen: list[int] = []
    position = step * size
    while len(chosen) < size:
        epoch, offset = divmod(position, total)
        order = list(range(total))
        random.Random(f"{seed}/{epoch}").shuffle(order)
        taken = order[offset : offset + size - len(chosen)]
        chosen += taken
        position += len(taken)
    return [f"p{index}" for index in chosen]


@pytest.mark.parametrize(("total", "size"), [(7, 3), (7, 7), (7, 20), (1, 3), (50, 8)])
@pytest.mark.parametrize("seed", [0, 3])
def test_the_order_is_what_it_has_always_been(total, size, seed):
    for step in range(12):
        chosen = UniformCurriculum().choose(
            prompts(total), size, step=step, seed=seed, recall=lambda asked: pytest.fail("nothing is asked")
        )
        assert ids(chosen) == order_before_there_were_curricula(total, size, step, seed)
    assert not UniformCurriculum().needs_history
    assert not UniformCurriculum().learns
    assert UniformCurriculum().caveat() == ""
