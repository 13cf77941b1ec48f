"""Whether a GPU has room for an engine, asked before vLLM builds one: it would end in the middle, out of memory."""

from __future__ import annotations

import gc
import math
from pathlib import Path

from ada_lightning.core.checks import refuse

_GIB = 2**30
_FLOATS = ("F64", "F32", "F16", "BF16")
"""Types of safetensors that an engine casts to its own; packed integers and float8 stay as they are."""
_BYTES = {"I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2}


def room_on_gpu(*, kv_cache_gib: float, weights_gib: float, num_gpus: int = 1) -> None:
    """Refuse an engine for which a GPU has too little free memory.

    Memory that torch's allocator holds in this process without using it is given back first. Activations and CUDA
    graphs are not counted, so an engine that is let through may still run out of memory.

    Args:
        kv_cache_gib: for keys and values on each GPU, in GiB.
        weights_gib: of the whole model in the engine's type, in GiB; divided by the GPUs.
        num_gpus: GPUs that the engine is spread over, the first ones that this process sees.

    Raises:
        ValueError: one has less free than cache and weights take.
    """
    import torch

    gc.collect()
    torch.cuda.empty_cache()
    own_weights = weights_gib / num_gpus
    asked = kv_cache_gib + own_weights
    for index in range(num_gpus):
        free, total = (size / _GIB for size in torch.cuda.mem_get_info(index))
        left = math.floor(10 * (free - own_weights)) / 10
        less = f"use less than rollout.engine.kv_cache_gib={left:g}, or " if left > 0 else ""
        refuse(
            free < asked
            and f"the engine asks for {asked:.1f} GiB of GPU {index}, where {free:.1f} of {total:.1f} GiB are free: "
            f"rollout.engine.kv_cache_gib = {kv_cache_gib:g}, and {own_weights:.1f} for weights; {less}end what else "
            "is on this GPU (nvidia-smi lists it)"
        )


def weights_gib(folder: Path, dtype: str) -> float:
    """Return what the weights of a checkpoint take in an engine, in GiB; 0 where it has no safetensors.

    Args:
        folder: with ``model*.safetensors``; only their headers are read.
        dtype: torch's name of the engine's type, such as ``bfloat16``.
    """
    import torch
    from safetensors import safe_open

    size, num_bytes = getattr(torch, dtype).itemsize, 0
    for path in sorted(folder.glob("model*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - it is no mapping
                part = file.get_slice(name)
                kind, count = part.get_dtype(), math.prod(part.get_shape())
                num_bytes += count * (size if kind in _FLOATS else _BYTES.get(kind, 1))
    return num_bytes / _GIB
