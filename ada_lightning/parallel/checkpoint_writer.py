"""Writes a Hugging Face checkpoint from tensors that come one at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

MAX_FILE_BYTES = 5 * 10**9
"""Transformers' own default."""


def write_checkpoint(
    folder: Path, model: Any, weights: Iterable[tuple[str, Tensor]], *, max_file_bytes: int = MAX_FILE_BYTES
) -> None:
    """Write a model in float32 as ``save_pretrained`` does, with one tensor in memory at a time.

    Transformers needs the whole state for it, and safetensors' own writer a whole file.

    Args:
        folder: made if need be.
        model: knows names, shapes and order of its parameters, which may be sharded.
        weights: whole tensors by name, in the order of ``model.named_parameters()``. Used to the end.
        max_file_bytes: a file ends before it gets larger, unless a single tensor is.

    Raises:
        ValueError: a tensor is another than the model announced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_settings(folder, model)
    buffers = _persistent_buffers(model)
    shapes = {name: tuple(tensor.shape) for name, tensor in chain(model.named_parameters(), buffers.items())}
    tensors = chain(weights, buffers.items())
    files = _divide(shapes, max_file_bytes)
    weight_map: dict[str, str] = {}
    for number, names in enumerate(files, start=1):
        name = "model.safetensors" if len(files) == 1 else f"model-{number:05d}-of-{len(files):05d}.safetensors"
        with (folder / name).open("wb") as file:
            file.write(_header({key: shapes[key] for key in names}))
            for key in names:
                file.write(_content(key, shapes[key], *next(tensors)))
        weight_map |= dict.fromkeys(names, name)
    for name, _ in tensors:
        raise ValueError(f"the model announced no tensor {name}")
    if len(files) > 1:
        index = {"metadata": {"total_size": sum(map(_num_bytes, shapes.values()))}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def _write_settings(folder: Path, model: Any) -> None:
    """Write what accompanies the weights."""
    model.config.architectures = [type(model).__name__.removeprefix("FSDP")]
    model.config.dtype = torch.float32
    model.config.save_pretrained(folder)
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.save_pretrained(folder)


def _persistent_buffers(model: Any) -> dict[str, Tensor]:
    return {
        f"{prefix}.{name}" if prefix else name: buffer
        for prefix, module in model.named_modules()
        for name, buffer in module.named_buffers(recurse=False)
        if name not in module._non_persistent_buffers_set
    }


def _divide(shapes: Mapping[str, tuple[int, ...]], max_bytes: int) -> list[list[str]]:
    files: list[list[str]] = [[]]
    size = 0
    for name, shape in shapes.items():
        if files[-1] and size + _num_bytes(shape) > max_bytes:
            files.append([])
            size = 0
        files[-1].append(name)
        size += _num_bytes(shape)
    return files


def _header(shapes: Mapping[str, tuple[int, ...]]) -> bytes:
    """Begin a safetensors file: the length of the header, then what stands where, padded so that numbers are aligned.

    Source:
        https://github.com/huggingface/safetensors, "Format".
    """
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + _num_bytes(shape)
        entries[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _content(expected: str, shape: Sequence[int], name: str, tensor: Tensor) -> memoryview:
    if name != expected or tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"expected the tensor {expected} of shape {shape}; got {name} of shape {tuple(tensor.shape)}")
    numbers = tensor.detach().to("cpu", torch.float32).contiguous()
    return numbers.numpy().data.cast("B")


def _num_bytes(shape: Sequence[int]) -> int:
    return 4 * torch.Size(shape).numel()
