"""Between whole tensors and their shards, one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor


def whole_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Gather one parameter after the other, outside of a forward and backward pass.

    Collective: every process that holds a shard iterates to the end.

    Yields:
        Name as in the Hugging Face checkpoint, tied weights once, and the whole tensor: a copy where it was sharded.
    """
    for name, parameter in model.named_parameters():
        yield name, whole(parameter)


def whole(tensor: Tensor) -> Tensor:
    """Return the whole of a tensor that may be sharded. Collective where it is."""
    detached = tensor.detach()
    return detached.full_tensor() if isinstance(detached, DTensor) else detached


def like(parameter: Tensor, whole_tensor: Tensor) -> Tensor:
    """Shard a whole tensor as a parameter of the same shape is sharded; a plain copy where that is whole.

    Nothing is sent: each process cuts its own part out.
    """
    moved = whole_tensor.detach().to(parameter.device)
    if not isinstance(parameter, DTensor):
        return moved.clone()
    # A copy, since the part is a view that would keep the whole in memory.
    return distribute_tensor(moved, parameter.device_mesh, parameter.placements, src_data_rank=None).clone()
