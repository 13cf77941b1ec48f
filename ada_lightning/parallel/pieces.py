"""Between whole tensors and their shards, one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset


def whole_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Gather one parameter after the other. Collective: every process that holds a shard iterates to the end.

    Args:
        model: its weights in shards, as they are outside of a forward and backward pass.

    Yields:
        Name as in the Hugging Face checkpoint, tied weights once, and the whole tensor: a copy where it was sharded.
    """
    for name, parameter in model.named_parameters():
        yield name, whole(parameter)


def whole(tensor: Tensor) -> Tensor:
    """Return the whole of a tensor that may be sharded. Collective where it is."""
    detached = tensor.detach()
    return detached.full_tensor() if isinstance(detached, DTensor) else detached


def own_part(whole_tensor: Tensor, sharded: DTensor) -> Tensor:
    """Cut this process's part out of a whole tensor: a view. Nothing is sent.

    Args:
        whole_tensor: of the shape of ``sharded``.
        sharded: says who has which part.
    """
    sizes, offsets = compute_local_shape_and_global_offset(sharded.shape, sharded.device_mesh, sharded.placements)
    part = whole_tensor
    for dimension, (size, offset) in enumerate(zip(sizes, offsets, strict=True)):
        part = part.narrow(dimension, offset, size)
    return part


def like(parameter: Tensor, whole_tensor: Tensor) -> Tensor:
    """Shard a whole tensor as a parameter of the same shape is sharded; a plain copy where that is whole."""
    moved = whole_tensor.to(parameter.device)
    if not isinstance(parameter, DTensor):
        return moved.clone()
    result = torch.empty_like(parameter.detach(), dtype=moved.dtype)
    assert isinstance(result, DTensor)
    result.to_local().copy_(own_part(moved, parameter))
    return result
