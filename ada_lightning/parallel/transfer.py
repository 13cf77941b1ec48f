"""Batches from the leader to another process: the numbers as one buffer, what they mean as a small header."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ada_lightning.core.batch import Microbatch, TrainingBatch

_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor stands in the buffer."""

    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]


def send_batches(batches: Sequence[TrainingBatch], rank: int, group: Any) -> None:
    """Send batches to one process.

    Args:
        batches: on the CPU.
        rank: of the receiver, in the default group.
        group: gloo group of both.
    """
    header, buffer = flatten_batches(batches)
    sizes = torch.tensor([len(header), len(buffer)])
    for tensor in (sizes, torch.frombuffer(bytearray(header), dtype=torch.uint8), buffer):
        dist.send(tensor, rank, group=group)


def receive_batches(group: Any) -> list[TrainingBatch]:
    """Receive what the leader sent with :func:`send_batches`."""
    sizes = torch.empty(2, dtype=torch.int64)
    dist.recv(sizes, 0, group=group)
    header, buffer = (torch.empty(int(size), dtype=torch.uint8) for size in sizes)
    dist.recv(header, 0, group=group)
    dist.recv(buffer, 0, group=group)
    return restore_batches(header.numpy().tobytes(), buffer)


def flatten_batches(batches: Sequence[TrainingBatch]) -> tuple[bytes, Tensor]:
    """Separate the tensors of batches from everything else.

    Returns:
        The pickled batches with places instead of tensors, and a buffer of bytes that holds the tensors. Never empty.
    """
    tensors: list[tuple[int, Tensor]] = []
    end = 0

    def place(tensor: Tensor) -> _Place:
        nonlocal end
        offset = -(-end // _ALIGNMENT) * _ALIGNMENT
        end = offset + tensor.numel() * tensor.element_size()
        tensors.append((offset, tensor))
        return _Place(offset, tensor.dtype, tuple(tensor.shape))

    placed = [
        _with_microbatches(batch, lambda value: place(value) if isinstance(value, Tensor) else value)
        for batch in batches
    ]
    buffer = torch.zeros(max(end, 1), dtype=torch.uint8)
    for offset, tensor in tensors:
        raw = tensor.contiguous().flatten().view(torch.uint8)
        buffer[offset : offset + raw.numel()] = raw
    return pickle.dumps(placed), buffer


def restore_batches(header: bytes, buffer: Tensor) -> list[TrainingBatch]:
    """Undo :func:`flatten_batches`; the tensors are views of ``buffer``."""

    def tensor_at(place: _Place) -> Tensor:
        num_bytes = torch.Size(place.shape).numel() * place.dtype.itemsize
        return buffer[place.offset : place.offset + num_bytes].view(place.dtype).view(place.shape)

    placed: list[TrainingBatch] = pickle.loads(header)  # from the leader of this very run
    return [
        _with_microbatches(batch, lambda value: tensor_at(value) if isinstance(value, _Place) else value)
        for batch in placed
    ]


def _with_microbatches(batch: TrainingBatch, convert: Any) -> TrainingBatch:
    """Convert every field of every microbatch."""
    return replace(
        batch,
        microbatches=tuple(
            replace(
                microbatch, **{field.name: convert(getattr(microbatch, field.name)) for field in fields(Microbatch)}
            )
            for microbatch in batch.microbatches
        ),
    )
