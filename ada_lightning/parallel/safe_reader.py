"""Reads torch's distributed checkpoints without running what is in them, as theirs does: they are pickles inside."""

from __future__ import annotations

import pickle
from typing import Any

import torch
from torch.distributed.checkpoint import DefaultLoadPlanner, FileSystemReader, Metadata, ReadItem

_METADATA = "torch.distributed.checkpoint.metadata"
_NEEDED = {
    (_METADATA, "Metadata"),
    (_METADATA, "TensorStorageMetadata"),
    (_METADATA, "BytesStorageMetadata"),
    (_METADATA, "ChunkStorageMetadata"),
    (_METADATA, "TensorProperties"),
    (_METADATA, "MetadataIndex"),
    (_METADATA, "StorageMeta"),
    (_METADATA, "_MEM_FORMAT_ENCODING"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    ("torch", "Size"),
    ("pathlib", "PosixPath"),
}
"""What the list of tensors in such a checkpoint is made of, beside the types of tensors' elements."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name) if (module, name) in _NEEDED or module == "torch" else None
        if (module, name) in _NEEDED or isinstance(found, torch.dtype):
            return found
        raise ValueError(f"the optimiser's state names {module}.{name}, which no list of tensors does: not loaded")


class SafeReader(FileSystemReader):
    """Takes nothing from the list of tensors but its own classes."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Read the list.

        Raises:
            ValueError: it names anything else.
        """
        with self.fs.create_stream(self._get_metadata_path(kwargs.get("rank")), "rb") as file:
            _Unpickler(file).load()  # raises before torch's own reader runs anything
        return super().read_metadata(*args, **kwargs)


class SafePlanner(DefaultLoadPlanner):
    """Reads values beside the tensors as plain ones."""

    def load_bytes(self, read_item: ReadItem, value: Any) -> None:
        """Take one value.

        Raises:
            pickle.UnpicklingError: it is no plain one.
        """
        torch.load(value, weights_only=True)  # raises before torch's own reader, which takes anything, runs it
        value.seek(0)
        super().load_bytes(read_item, value)
