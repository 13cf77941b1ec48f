"""Memory of policy versions that other processes read."""

from __future__ import annotations

import os

import torch

from ada_lightning.rollout.engines.published_weights import HostBuffer, SharedWeights, on_cpu

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


def test_tensors_pass_through_one_buffer_whatever_their_shapes_and_types():
    """Those of a GPU, where there is one."""
    buffer, places = HostBuffer(), set()
    for tensor in (
        torch.randn(40, 30),
        torch.randn(20, 10).t(),  # not contiguous
        torch.tensor(2.0, dtype=torch.bfloat16),
        torch.empty(0, 3),
        torch.arange(7),
    ):
        for dtype in (tensor.dtype, torch.bfloat16):
            held = buffer.hold(tensor.to("cuda" if torch.cuda.is_available() else "cpu"), dtype)
            assert held.is_contiguous()
            assert torch.equal(held, tensor.to(dtype))
            places.add(held.data_ptr())
    assert len(places - {0}) == 1


def test_a_tensor_is_copied_only_to_be_cast_or_put_in_order():
    weights = [("same", torch.ones(3)), ("turned", torch.ones(2, 3).t()), ("cast", torch.ones(3).double())]
    arrived = [(name, tensor.dtype, tensor.data_ptr()) for name, tensor in on_cpu(weights, "float32", HostBuffer())]
    places = {name: place for name, _, place in arrived}
    assert {dtype for _, dtype, _ in arrived} == {torch.float32}
    assert [places[name] == tensor.data_ptr() for name, tensor in weights] == [True, False, False]
    assert places["cast"] == places["turned"]
