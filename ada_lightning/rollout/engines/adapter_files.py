"""A policy's adapters as files of peft's format, which is how vLLM takes them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def write_adapter(folder: Path, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Write adapters into an empty folder.

    Args:
        folder: where to.
        named_tensors: A and B of every adapted layer under peft's names; their product is what is added to the layer's
            weight, so the scale is in them.
    """
    from safetensors.torch import save_file

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in named_tensors}
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    rank = next(tensor.shape[0] for name, tensor in tensors.items() if name.endswith("lora_A.weight"))
    layers = sorted({name.rsplit(".", 3)[1] for name in tensors})
    described = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": layers, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(described), encoding="utf-8")
