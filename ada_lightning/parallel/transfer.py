"""Values with tensors, from the leader to another process: the numbers as one buffer, the rest as a small header."""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

_ALIGNMENT = 16


def send(value: Any, rank: int, group: Any) -> None:
    """Send a value to one process.

    Args:
        value: what can be pickled; its tensors are on the CPU.
        rank: of the receiver, in the default group.
        group: gloo group of both.
    """
    header, buffer = flatten(value)
    sizes = torch.tensor([len(header), len(buffer)])
    for tensor in (sizes, torch.frombuffer(bytearray(header), dtype=torch.uint8), buffer):
        dist.send(tensor, rank, group=group)


def receive(group: Any) -> Any:
    """Receive what the leader sent with :func:`send`."""
    sizes = torch.empty(2, dtype=torch.int64)
    dist.recv(sizes, 0, group=group)
    header, buffer = (torch.empty(int(size), dtype=torch.uint8) for size in sizes)
    dist.recv(header, 0, group=group)
    dist.recv(buffer, 0, group=group)
    return restore(header.numpy().tobytes(), buffer)


def flatten(value: Any) -> tuple[bytes, Tensor]:
    """Separate the tensors of a value from everything else.

    Returns:
        The pickled value with places instead of tensors, and a buffer of bytes that holds the tensors. Never empty.
    """
    header = io.BytesIO()
    pickler = _Pickler(header)
    pickler.dump(value)
    buffer = torch.zeros(max(pickler.end, 1), dtype=torch.uint8)
    for offset, tensor in pickler.tensors:
        raw = tensor.contiguous().flatten().view(torch.uint8)
        buffer[offset : offset + raw.numel()] = raw
    return header.getvalue(), buffer


def restore(header: bytes, buffer: Tensor) -> Any:
    """Undo :func:`flatten`; the tensors are views of ``buffer``. The header is from the leader of this very run."""
    return _Unpickler(io.BytesIO(header), buffer).load()


class _Pickler(pickle.Pickler):
    """Notes every tensor's place in the buffer instead of pickling it."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.tensors: list[tuple[int, Tensor]] = []
        self.end = 0

    def persistent_id(self, obj: Any) -> tuple[int, torch.dtype, tuple[int, ...]] | None:
        if not isinstance(obj, Tensor):
            return None
        offset = -(-self.end // _ALIGNMENT) * _ALIGNMENT
        self.end = offset + obj.numel() * obj.element_size()
        self.tensors.append((offset, obj))
        return offset, obj.dtype, tuple(obj.shape)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, buffer: Tensor) -> None:
        super().__init__(file)
        self.buffer = buffer

    def persistent_load(self, pid: tuple[int, torch.dtype, tuple[int, ...]]) -> Tensor:
        offset, dtype, shape = pid
        num_bytes = torch.Size(shape).numel() * dtype.itemsize
        return self.buffer[offset : offset + num_bytes].view(dtype).view(shape)
