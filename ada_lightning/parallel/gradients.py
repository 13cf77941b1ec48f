"""Tensors of several processes, whole and in shards, and gradients: their sum, their norm, their clipping."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Partial, distribute_tensor


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


@torch.no_grad()
def add_up(parameters: Iterable[nn.Parameter]) -> None:
    """Replace the gradients of whole parameters by their sums over all processes.

    Sums, not means: every loss is divided by counts of the whole batch already.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    for sent in [dist.all_reduce(gradient, async_op=True) for gradient in gradients]:
        sent.wait()


@torch.no_grad()
def clip_to_norm(parameters: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """Scale gradients so that their joint norm is at most ``max_norm``. Some may be sharded, others whole.

    Torch's own ``clip_grad_norm_`` refuses to combine these.

    Returns:
        The norm before, the same on all processes. A scalar, float32.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    is_any_sharded = any(isinstance(gradient, DTensor) for gradient in gradients)
    norm = _joint_norm(gradients) if is_any_sharded else torch.nn.utils.get_total_norm(gradients)
    factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)  # as torch does
    if held := [local(gradient) for gradient in gradients]:
        torch._foreach_mul_(held, factor.to(held[0].device))
    return norm


def _joint_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Sum the squares of every gradient over just those processes that hold different parts of it."""
    by_layout: dict[Any, list[Tensor]] = defaultdict(list)
    for gradient in gradients:
        by_layout[_layout(gradient)].append(torch.linalg.vector_norm(local(gradient), dtype=torch.float32))
    total = torch.zeros((), device=local(gradients[0]).device)
    for (mesh, dimensions), norms in by_layout.items():
        squares = torch.stack(norms).square().sum()
        for dimension in dimensions:
            dist.all_reduce(squares, group=mesh.get_group(dimension))
        total += squares
    return total.sqrt()


def _layout(gradient: Tensor) -> tuple[Any, tuple[int, ...]]:
    """Return the mesh of a gradient and along which of its dimensions the parts differ."""
    if not isinstance(gradient, DTensor):
        return None, ()
    if any(isinstance(placement, Partial) for placement in gradient.placements):
        raise RuntimeError(f"a gradient that is not summed up yet has no norm; its placements: {gradient.placements}")
    sharded = [index for index, placement in enumerate(gradient.placements) if not placement.is_replicate()]
    return gradient.device_mesh, tuple(sharded)


def local(gradient: Tensor) -> Tensor:
    """Return what this process holds of a gradient, sharded or whole."""
    return gradient.to_local() if isinstance(gradient, DTensor) else gradient
