"""Tensors from one process to another through memory that both see, one at a time."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class SharedTensor:
    """A piece of anonymous memory that holds one tensor after another.

    A file descriptor without a name: nothing to unlink, nothing left behind by a process that is killed, and no limit
    by the size of ``/dev/shm`` (64 MB in a container by default). It belongs to the process's own memory limit.

    Args:
        descriptor: of memory made by :func:`shared_memory`.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer: Tensor | None = None

    def write(self, tensor: Tensor) -> Tensor:
        """Put a tensor there, from whatever device; returns it as it stands there, valid until the next one."""
        num_bytes = tensor.numel() * tensor.element_size()
        if os.fstat(self._descriptor).st_size < num_bytes:
            os.ftruncate(self._descriptor, num_bytes)
        shared = self._view(tensor.shape, tensor.dtype, num_bytes)
        shared.copy_(tensor)
        return shared

    def read(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return a copy of the tensor that stands there: engines keep tensors until a whole layer has come."""
        import torch

        num_bytes = torch.Size(shape).numel() * dtype.itemsize
        return self._view(shape, dtype, num_bytes).clone()

    def release(self) -> None:
        """Give the memory back until the next tensor."""
        self._buffer = None
        os.ftruncate(self._descriptor, 0)

    def _view(self, shape: tuple[int, ...], dtype: torch.dtype, num_bytes: int) -> Tensor:
        import torch

        if num_bytes == 0:
            return torch.empty(shape, dtype=dtype)
        if self._buffer is None or self._buffer.numel() < num_bytes:
            self._buffer = torch.frombuffer(mmap.mmap(self._descriptor, num_bytes), dtype=torch.uint8)
        return self._buffer[:num_bytes].view(dtype).view(shape)


def shared_memory() -> int:
    """Make empty memory that a child process can be given; returns its file descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("ada_lightning_weights")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
