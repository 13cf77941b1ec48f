"""The trainer's state in a checkpoint, read without its tensors: milliseconds, before any model loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FILE = "trainer.ckpt"
"""Name in a checkpoint's folder."""


def read_trainer_state(checkpoint: Path) -> dict[str, Any]:
    """Return what the trainer left in a checkpoint. Tensors have their shapes and no values (torch's meta device).

    Raises:
        ValueError: the file is missing, cut off, or nothing that torch wrote.
    """
    import torch

    file = checkpoint / FILE
    try:
        state = torch.load(file, map_location="meta", mmap=True, weights_only=True)
    except Exception as error:  # torch, zipfile and pickle each have errors of their own for it
        reason = str(error).partition("\n")[0].partition(". ")[0]
        raise ValueError(f"{file} cannot be loaded ({type(error).__name__}: {reason})") from error
    if not isinstance(state, dict):
        raise ValueError(f"{file} cannot be loaded: it holds no state of a trainer")
    return state
