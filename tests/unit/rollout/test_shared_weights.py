"""Memory of policy versions that other processes read."""

from __future__ import annotations

import os

import torch

from ada_lightning.rollout.engines.published_weights import SharedWeights

SIZE = 4 * 8000


def version(number):
    return [("a", torch.full((4800,), float(number))), ("b", torch.full((40, 80), -float(number)))]


def read(tensors):
    return {name: tensor.unique().tolist() for name, tensor in tensors}


def test_versions_stay_as_they_were_written_while_somebody_holds_them():
    memory, held = SharedWeights(), {}
    for number in range(8):
        held[number], _ = memory.write(version(number))
        held.pop(number - 2, None)
        assert {each: read(tensors) for each, tensors in held.items()} == {
            each: {"a": [float(each)], "b": [-float(each)]} for each in held
        }
        assert os.fstat(memory.descriptor).st_size <= 3 * SIZE  # two held, and one that is written
    memory.close()


def test_memory_of_one_version_is_kept_for_the_next_and_the_rest_is_given_back():
    memory = SharedWeights()
    first, second = (memory.write(version(number))[0] for number in range(2))
    assert os.fstat(memory.descriptor).st_size == 2 * SIZE
    del first, second
    pages = os.fstat(memory.descriptor).st_blocks
    assert memory._free_place() == 0
    kept = os.fstat(memory.descriptor)
    assert kept.st_size == SIZE
    assert 0 < kept.st_blocks < pages  # and it is memory, not a hole that would be filled again page by page
    memory.close()
