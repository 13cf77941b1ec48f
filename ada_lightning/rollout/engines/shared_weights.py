"""Weights from one process to others through memory that all of them see."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ada_lightning.rollout.engines.published_weights import Digest, WeightDigest, as_bytes

if TYPE_CHECKING:
    from torch import Tensor


class SharedWeights:
    """Anonymous memory that holds all tensors of policy versions, for every engine of this machine.

    A file descriptor without a name: nothing to unlink, nothing left behind by a process that is killed, and no limit
    by the size of ``/dev/shm`` (64 MB in a container by default). It belongs to the process's own memory limit.
    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("ada_lightning_weights")
        self._regions: dict[int, int] = {}
        """End of each that is in use, by its begin, bytes."""
        self._size = 0
        """Of the last version, bytes."""

    def write(self, named_tensors: Iterable[tuple[str, Tensor]]) -> tuple[SharedTensors, Digest]:
        """Put tensors, which are on the CPU, where nothing is that is still in use. None of them is held afterwards.

        Memory is in use until nobody in this process holds what is returned.
        """
        begin = self._free_place()
        digest, places, offset = WeightDigest(), [], begin
        for name, tensor in digest.reading(named_tensors):
            places.append((name, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), offset))
            data = as_bytes(tensor)
            while data:  # a single call writes 2 GiB at most
                written = os.pwrite(self.descriptor, data, offset)
                data, offset = data[written:], offset + written
        self._regions[begin], self._size = offset, offset - begin
        tensors = SharedTensors(self.descriptor, places)
        weakref.finalize(tensors, self._regions.pop, begin, None)
        return tensors, digest.value()

    def _free_place(self) -> int:
        """Where a version fits: all have the same size, so a gap that one of them left is as large as any."""
        if not self._regions:
            # What the last version had is kept: writing to fresh memory takes three times as long.
            os.ftruncate(self.descriptor, self._size)
        place = 0
        for begin, end in sorted(self._regions.items()):
            if begin - place >= self._size:
                break
            place = end
        return place

    def close(self) -> None:
        """Give the memory back. Safe to call twice."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class SharedTensors:
    """The tensors as a process reads them that was given the descriptor under the same number; any number of times."""

    def __init__(self, descriptor: int, places: list[tuple[str, tuple[int, ...], str, int]]) -> None:
        self._descriptor = descriptor
        self._places = places

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        import torch

        for name, shape, dtype, offset in self._places:
            tensor = torch.empty(shape, dtype=getattr(torch, dtype))
            data = as_bytes(tensor)
            while data and (num_read := os.preadv(self._descriptor, [data], offset)):
                data, offset = data[num_read:], offset + num_read
            yield name, tensor
