"""The tensors of a Hugging Face checkpoint, one at a time."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor


class CheckpointReader:
    """Reads single tensors from ``model.safetensors`` of a folder, or the files of its index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        index = folder / "model.safetensors.index.json"
        if index.exists():
            self._file_of: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        else:
            with safe_open(folder / "model.safetensors", framework="pt") as file:
                self._file_of = dict.fromkeys(file.keys(), "model.safetensors")

    def has(self, names: Collection[str]) -> bool:
        """Whether every one of these is in the checkpoint under this very name."""
        return all(name in self._file_of for name in names)

    def read(self, name: str) -> Tensor:
        """Return a tensor in float32, on the CPU."""
        with safe_open(self._folder / self._file_of[name], framework="pt") as file:
            tensor: Tensor = file.get_tensor(name)
        return tensor.to(torch.float32)
