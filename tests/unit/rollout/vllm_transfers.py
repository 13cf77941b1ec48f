"""The trainer's half of vLLM's weight transfer in the three kinds that there are, with the signatures of the real ones.

Each stands for ``vllm.distributed.weight_transfer`` as its sources have it; what needs a GPU writes down what it is
given. The installed vLLM, which has one of the kinds: test_weight_transfer.py.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar

PLACE = "vllm.distributed.weight_transfer"


@dataclass(frozen=True)
class ParamMeta:
    name: str
    dtype: Any
    shape: tuple[int, ...]


def installed(monkeypatch, kind, sent):
    """Put one kind in place of what is installed; ``sent`` gets what goes from GPU to GPU."""
    for name, module in kind(sent).items():
        monkeypatch.setitem(sys.modules, f"{PLACE}.{name}", module)


def static_halves(sent):
    """vLLM 0.26, and for NCCL 0.27."""

    @dataclass
    class IPCTrainerSendWeightsArgs:
        send_mode: str | Callable[[Any], None]
        llm_handle: Any = None
        url: str | None = None
        packed: bool = False
        packed_buffer_size_bytes: int = 2**30

    @dataclass
    class IPCWeightTransferUpdateInfo:
        names: list[str]
        dtype_names: list[str]
        shapes: list[list[int]]
        ipc_handles: dict[str, tuple] | None = None
        ipc_handles_pickled: str | None = None
        tensor_sizes: list[int] | None = None
        packed: bool = False

    class IPCWeightTransferEngine:
        @staticmethod
        def trainer_send_weights(iterator, trainer_args):
            assert not isinstance(iterator, list)
            for name, tensor in iterator:  # a chunk for each
                assert trainer_args.packed
                trainer_args.send_mode(
                    IPCWeightTransferUpdateInfo(
                        [name], ["float32"], [list(tensor.shape)],
                        {"GPU-1": (trainer_args.packed_buffer_size_bytes,)}, tensor_sizes=[tensor.nbytes], packed=True,
                    )
                )  # fmt: skip

    @dataclass
    class NCCLTrainerSendWeightsArgs:
        group: Any
        src: int = 0
        post_iter_func: Callable[[Any], Any] | None = None
        packed: bool = False
        stream: Any = None
        packed_buffer_size_bytes: int = 2**30
        packed_num_buffers: int = 2

    class NCCLWeightTransferEngine:
        @staticmethod
        def trainer_init(init_info):
            return tuple(init_info[name] for name in ("master_address", "master_port", "world_size"))

        @staticmethod
        def trainer_send_weights(iterator, trainer_args):
            args = NCCLTrainerSendWeightsArgs(**trainer_args)
            sent.append((args.group, args.packed, list(iterator)))

    return {
        "ipc_engine": SimpleNamespace(
            IPCTrainerSendWeightsArgs=IPCTrainerSendWeightsArgs, IPCWeightTransferEngine=IPCWeightTransferEngine
        ),
        "nccl_engine": SimpleNamespace(NCCLWeightTransferEngine=NCCLWeightTransferEngine),
    }


def trainer_engines(sent):
    """vLLM 0.28 to 0.32, and for CUDA IPC 0.27."""

    class WeightSource(ABC):
        @abstractmethod
        def metadata(self):
            raise NotImplementedError

        @abstractmethod
        def __iter__(self):
            raise NotImplementedError

    return _engines(sent, WeightSource, described=lambda source: source.metadata(), tensors=iter)


def kept_metadata(sent):
    """vLLM 0.33."""

    class WeightSource(ABC):
        def __init_subclass__(cls, **kwargs):
            super().__init_subclass__(**kwargs)
            metadata = cls.__dict__.get("metadata")
            if metadata is not None and not isinstance(metadata, cached_property):
                raise TypeError(f"{cls.__name__}.metadata must be a functools.cached_property")

        @property
        @abstractmethod
        def metadata(self):
            raise NotImplementedError

        def implements_iter_full(self):
            return type(self).iter_full is not WeightSource.iter_full

        def iter_full(self):
            raise NotImplementedError(f"{type(self).__name__} does not implement iter_full")

    def tensors(source):
        assert source.implements_iter_full()
        return source.iter_full()

    return _engines(sent, WeightSource, described=lambda source: source.metadata, tensors=tensors)


KINDS = (static_halves, trainer_engines, kept_metadata)


def _engines(sent, weight_source, described, tensors):
    @dataclass
    class TrainerInitInfo:
        backend: ClassVar[str]
        rank: int = field(kw_only=True)

    @dataclass
    class IPCTrainerInitInfo(TrainerInitInfo):
        backend: ClassVar[str] = "ipc"
        packed: bool = False
        packed_buffer_size_bytes: int = 2**30

    @dataclass
    class NCCLTrainerInitInfo(TrainerInitInfo):
        backend: ClassVar[str] = "nccl"
        master_address: str
        master_port: int
        world_size: int
        packed: bool = True
        packed_buffer_size_bytes: int = 2**30
        packed_num_buffers: int = 2

    class IpcEngine:
        def __init__(self, init_info, client, source):
            self.buffer, self.client, self.source = init_info.packed_buffer_size_bytes, client, source
            client.init_weight_transfer_engine({"packed": init_info.packed})

        def send_weights(self):
            self.client.start_weight_update()
            for name, tensor in tensors(self.source):  # of an iterator; its metadata is not asked for
                info = {"names": [name], "dtype_names": ["float32"], "shapes": [list(tensor.shape)]}
                handles = {"ipc_handles": {"GPU-1": (self.buffer,)}, "tensor_sizes": [tensor.nbytes]}
                self.client.update_weights(info | handles)
            self.client.finish_weight_update()

        def shutdown(self):
            sent.append("left")

    class NcclEngine:
        def __init__(self, init_info, client, source):
            self.init_info, self.client, self.source = init_info, client, source
            client.init_weight_transfer_engine({"rank_offset": 1} | asdict(init_info))

        def send_weights(self):
            meta = described(self.source)
            self.client.start_weight_update()
            self.client.update_weights(
                {
                    "names": [each.name for each in meta],
                    "dtype_names": [str(each.dtype).split(".")[-1] for each in meta],
                    "shapes": [list(each.shape) for each in meta],
                }
            )
            meeting = self.init_info.master_address, self.init_info.master_port, self.init_info.world_size
            sent.append((meeting, self.init_info.packed, list(tensors(self.source))))
            self.client.finish_weight_update()

        def shutdown(self):
            sent.append("left")

    class WeightTransferTrainerFactory:
        @classmethod
        def trainer_init(cls, init_info, *, client, source):
            assert init_info.rank == 0
            return {"ipc": IpcEngine, "nccl": NcclEngine}[init_info.backend](init_info, client, source)

    return {
        "base": SimpleNamespace(ParamMeta=ParamMeta, WeightSource=weight_source),
        "factory": SimpleNamespace(WeightTransferTrainerFactory=WeightTransferTrainerFactory),
        "ipc_engine": SimpleNamespace(IPCTrainerInitInfo=IPCTrainerInitInfo),
        "nccl_engine": SimpleNamespace(NCCLTrainerInitInfo=NCCLTrainerInitInfo),
    }
