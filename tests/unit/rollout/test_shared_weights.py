"""Memory of policy versions that other processes read."""

from __future__ import annotations

import os

import torch

from ada_lightning.rollout.engines.shared_weights import SharedWeights

SIZE = 4 * 1000


def version(number):
    return [("a", torch.full((600,), float(number))), ("b", torch.full((20, 20), -float(number)))]


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


def test_memory_is_given_back_when_nobody_holds_a_version():
    memory = SharedWeights()
    for number in range(3):
        tensors, _ = memory.write(version(number))
        assert os.fstat(memory.descriptor).st_size == SIZE
        del tensors
    memory.close()
