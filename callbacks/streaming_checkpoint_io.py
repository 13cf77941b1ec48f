"""Write the trainer's state straight to disk."""

from __future__ import annotations

from typing import Any

import torch
from lightning.fabric.utilities.types import _PATH
from lightning.pytorch.plugins.io import TorchCheckpointIO


class StreamingCheckpointIO(TorchCheckpointIO):
    """Saves without the copy in memory that Lightning makes for atomicity.

    For a 135M model that copy is more than 1 GB, the peak of the whole run.
    :class:`~ada_lightning.callbacks.checkpoint.RolloutCheckpoint` is atomic by renaming a complete folder instead.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: _PATH, storage_options: Any | None = None) -> None:
        """Write ``checkpoint`` to ``path``, a new file.

        Raises:
            TypeError: storage options, which a plain file does not have.
        """
        if storage_options is not None:
            raise TypeError("StreamingCheckpointIO writes plain files; it takes no storage_options")
        torch.save(checkpoint, path)
