"""A checksum of a policy's weights on their way: names, shapes, types, bytes and order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Digest:
    """What was sent, or what arrived."""

    num_tensors: int
    num_bytes: int
    checksum: str
    """XXH3, 64 bits, in hexadecimal: 7 GiB/s on one core, where CRC-32 has 1.7."""


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
        import torch

        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        self._hash.update(f"{name}\x1f{tuple(tensor.shape)}\x1f{tensor.dtype}\x1f".encode())
        self._hash.update(flat.numpy().data)
        self._num_tensors += 1
        self._num_bytes += flat.numel()

    def reading(self, named_tensors: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """Pass tensors on and read each."""
        for name, tensor in named_tensors:
            self.add(name, tensor)
            yield name, tensor

    def value(self) -> Digest:
        """Return the digest of what was read so far."""
        return Digest(self._num_tensors, self._num_bytes, self._hash.hexdigest())


def digest_error(sent: Digest, arrived: Digest) -> str:
    """Say how two digests differ; empty where they are equal."""
    if sent == arrived:
        return ""
    return (
        f"the engine got other weights than were sent: {arrived.num_tensors} tensors of {arrived.num_bytes} bytes with "
        f"checksum {arrived.checksum} instead of {sent.num_tensors} of {sent.num_bytes} with {sent.checksum}"
    )
