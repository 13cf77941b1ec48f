"""A policy's weights on their way to engines elsewhere: type, checksum, and where engines read them.

Processes of one machine read them from memory that all of them see.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Digest:
    """What was sent, or what arrived: names, shapes, types, bytes and order of tensors."""

    num_tensors: int
    num_bytes: int
    checksum: str
    """XXH3, 64 bits, in hexadecimal: 7 GiB/s on one core, where CRC-32 has 1.7."""

    def error(self, arrived: Digest) -> str:
        """Say how what arrived differs from this, which was sent; empty where it does not."""
        if self == arrived:
            return ""
        return (
            f"the engine got other weights than were sent: {arrived.num_tensors} tensors of {arrived.num_bytes} bytes "
            f"with checksum {arrived.checksum} instead of {self.num_tensors} of {self.num_bytes} with {self.checksum}"
        )


@dataclass(frozen=True, slots=True)
class PublishedWeights:
    """Weights that every engine of a pool can read, now or after a restart."""

    policy_version: int
    named_tensors: Iterable[tuple[str, Tensor]]
    """Can be read any number of times, in any engine's process."""
    digest: Digest


class WeightDigest:
    """Reads tensors as they pass.

    Example:
        >>> import torch
        >>> first, second = WeightDigest(), WeightDigest()
        >>> first.add("w", torch.tensor([1.0, 2.0]))
        >>> second.add("w", torch.tensor([2.0, 1.0]))
        >>> first.value() == second.value(), first.value().num_bytes
        (False, 8)
    """

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_64()
        self._num_tensors = 0
        self._num_bytes = 0

    def add(self, name: str, tensor: Tensor) -> None:
        """Read one tensor, which must be on the CPU."""
        self._hash.update(f"{name}\x1f{tuple(tensor.shape)}\x1f{tensor.dtype}\x1f".encode())
        self._hash.update(as_bytes(tensor.detach().contiguous()))
        self._num_tensors += 1
        self._num_bytes += tensor.nbytes

    def reading(self, named_tensors: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """Pass tensors on and read each."""
        for name, tensor in named_tensors:
            self.add(name, tensor)
            yield name, tensor

    def value(self) -> Digest:
        """Return the digest of what was read so far."""
        return Digest(self._num_tensors, self._num_bytes, self._hash.hexdigest())


def in_engine_type(named_tensors: Iterable[tuple[str, Tensor]], weight_dtype: str) -> Iterator[tuple[str, Tensor]]:
    """Cast to the engine's own type, where it tells one: in bfloat16 half of the bytes travel."""
    for name, tensor in named_tensors:
        yield name, tensor.detach().to(_type_in_engine(tensor, weight_dtype))


def on_cpu(
    named_tensors: Iterable[tuple[str, Tensor]], weight_dtype: str, buffer: HostBuffer | None = None
) -> Iterator[tuple[str, Tensor]]:
    """Bring tensors to the CPU in the engine's own type, one at a time.

    With a buffer those that are copied pass through it: each is there until the next is asked for.
    """
    if buffer is None:
        for name, tensor in in_engine_type(named_tensors, weight_dtype):
            yield name, tensor.cpu().contiguous()
        return
    for name, tensor in named_tensors:
        dtype = _type_in_engine(tensor, weight_dtype)
        is_there = tensor.device.type == "cpu" and tensor.dtype == dtype and tensor.is_contiguous()
        yield name, tensor.detach() if is_there else buffer.hold(tensor.detach(), dtype)


def _type_in_engine(tensor: Tensor, weight_dtype: str) -> torch.dtype:
    import torch

    is_cast = weight_dtype and tensor.is_floating_point()
    return getattr(torch, weight_dtype.removeprefix("torch.")) if is_cast else tensor.dtype


class HostBuffer:
    """Memory of the CPU that tensors pass through one by one; kept from sync to sync, and pinned where there is a GPU.

    Fresh memory would be zeroed first, and a GPU's copy to memory that is not pinned goes through a small buffer of the
    driver's. It is as large as the largest tensor that came.
    """

    def __init__(self) -> None:
        self._bytes: Tensor | None = None

    def hold(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        """Copy a tensor of any shape as this type, and wait until it is there. The next call overwrites it.

        Raises:
            RuntimeError: the machine has no room to pin so much.
        """
        import torch

        num_bytes = tensor.numel() * dtype.itemsize
        if self._bytes is None or self._bytes.numel() < num_bytes:
            self._bytes = None  # first, so that both are never there together
            self._bytes = torch.empty(num_bytes, dtype=torch.uint8, pin_memory=torch.cuda.is_available())
        return self._bytes[:num_bytes].view(dtype).view(tensor.shape).copy_(tensor)


def chunks(named_tensors: Iterable[tuple[str, Tensor]], chunk_bytes: int) -> Iterator[list[tuple[str, Tensor]]]:
    """Group tensors in their order until a group is large enough."""
    chunk, size = [], 0
    for name, tensor in named_tensors:
        chunk.append((name, tensor))
        size += tensor.nbytes
        if size >= chunk_bytes:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def as_bytes(tensor: Tensor) -> memoryview:
    """Memory of a contiguous tensor of the CPU, to read and to write."""
    import torch

    return tensor.reshape(-1).view(torch.uint8).numpy().data


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
        import numpy as np
        import torch

        for name, shape, dtype, offset in self._places:
            # Memory of torch.empty is aligned, so one that was freed does not fit the next tensor of the same size.
            num_bytes = math.prod(shape) * getattr(torch, dtype).itemsize
            held = np.empty(max(1, num_bytes), dtype=np.uint8)  # of nothing a tensor has no stride to view it by
            tensor = torch.from_numpy(held)[:num_bytes].view(getattr(torch, dtype)).view(shape)
            data = held.data[:num_bytes]
            while data and (num_read := os.preadv(self._descriptor, [data], offset)):
                data, offset = data[num_read:], offset + num_read
            yield name, tensor
