"""The optimiser's state on disk, in shards that any number of processes can read again.

Kept by the names of parameters, not by their numbers, which depend on how many processes there are. It is read without
running what is in it, as torch's own reader does: its distributed checkpoints are pickles inside.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint import DefaultLoadPlanner, FileSystemReader, Metadata, ReadItem
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.optim import Optimizer

from ada_lightning.parallel.gradients import like

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
"""What the list of tensors in such a checkpoint is made of, in addition to the types of the tensors' elements."""


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
    """Reads values that are no tensors as plain ones."""

    def load_bytes(self, read_item: ReadItem, value: Any) -> None:
        """Take one value.

        Raises:
            pickle.UnpicklingError: it is no plain one.
        """
        torch.load(value, weights_only=True)  # raises before torch's own reader, which takes anything, runs it
        value.seek(0)
        super().load_bytes(read_item, value)


_SEPARATOR = "/"


def write_optimizer_state(folder: Path, model: nn.Module, optimizer: Optimizer, group: Any) -> None:
    """Write every process's part of the state. Collective.

    Args:
        folder: made if need be; all processes must see the same one.
        model: whose parameters are optimised.
        optimizer: of it.
        group: gloo group of all processes.
    """
    tensors = {
        f"{name}{_SEPARATOR}{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }
    dcp.save(tensors, storage_writer=dcp.FileSystemWriter(folder), process_group=group)


def read_optimizer_state(folder: Path, model: nn.Module, optimizer: Optimizer, group: Any) -> None:
    """Restore what any number of processes wrote with :func:`write_optimizer_state`. Collective."""
    _assign(optimizer, dict(model.named_parameters()), _read(folder, model, group))


def whole_optimizer_state(folder: Path, model: nn.Module, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Read what any number of processes wrote, for a whole model, as ``Optimizer.state_dict()`` of one process.

    Args:
        folder: of :func:`write_optimizer_state`.
        model: whose parameters are optimised, whole.
        settings: of the optimiser, for the one group of parameters.
    """
    number_of = {name: number for number, (name, _) in enumerate(model.named_parameters())}
    state = _by_number(_read(folder, model, None), number_of)
    return {"state": state, "param_groups": [{**settings, "params": list(number_of.values())}]}


def take_whole_state(model: nn.Module, optimizer: Optimizer, state: Mapping[int, Mapping[str, Any]]) -> None:
    """Restore ``Optimizer.state_dict()["state"]`` of a run of one process: each process takes its part."""
    parameters = dict(model.named_parameters())
    names = list(parameters)
    tensors = {
        f"{names[number]}{_SEPARATOR}{key}": _part(parameters[names[number]], value)
        for number, values in state.items()
        for key, value in values.items()
    }
    _assign(optimizer, parameters, tensors)


def _read(folder: Path, model: nn.Module, group: Any) -> dict[str, Any]:
    """Read everything, sharded as the model is. Collective unless ``group`` is None: then each process reads alone."""
    reader = SafeReader(folder)
    parameters = dict(model.named_parameters())
    entries = reader.read_metadata().state_dict_metadata
    tensors = {key: _template(parameters, key, entry) for key, entry in entries.items()}
    with warnings.catch_warnings():
        if group is None:
            warnings.filterwarnings("ignore", message="torch.distributed is disabled", category=UserWarning)
        dcp.load(tensors, storage_reader=reader, planner=SafePlanner(), process_group=group, no_dist=group is None)
    return tensors


def _template(parameters: Mapping[str, Tensor], key: str, entry: Any) -> Any:
    """Make room for one entry, sharded like its parameter if it has the same shape."""
    parameter = parameters[key.rpartition(_SEPARATOR)[0]]
    if not isinstance(entry, TensorStorageMetadata):
        return None
    if entry.size == parameter.shape:
        return torch.empty_like(parameter.detach(), dtype=entry.properties.dtype)
    return torch.empty(entry.size, dtype=entry.properties.dtype)


def _part(parameter: Tensor, value: Any) -> Any:
    if isinstance(value, Tensor) and value.shape == parameter.shape:
        return like(parameter, value)
    return value.clone() if isinstance(value, Tensor) else value


def _assign(optimizer: Optimizer, parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, Any]) -> None:
    """Hand the state to the optimiser, which moves steps and the like where it wants them."""
    name_of = {parameter: name for name, parameter in parameters.items()}
    trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state = _by_number(tensors, {name_of[parameter]: number for number, parameter in enumerate(trained)})
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _by_number(tensors: Mapping[str, Any], number_of: Mapping[str, int]) -> dict[int, dict[str, Any]]:
    """Sort entries that stand under names of parameters by the numbers that an optimiser gives them."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in tensors.items():
        name, _, field = key.rpartition(_SEPARATOR)
        state.setdefault(number_of[name], {})[field] = value
    return state
