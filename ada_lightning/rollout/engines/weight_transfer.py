"""vLLM's own ways of bringing weights into an engine on a GPU.

The workers are reached by the four calls of ``VLLMWeightSyncClient``. The trainer's half differs between versions of
vLLM (:mod:`.vllm_versions`). A test compares both with what is installed. **Never run on a GPU by this project**:
``docs/gpu_acceptance.sh`` is what to run first where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ada_lightning.core.options import option
from ada_lightning.rollout.engines.published_weights import chunks
from ada_lightning.rollout.engines.vllm_versions import trainer_half

if TYPE_CHECKING:
    from torch import Tensor

_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""``vllm.config.lora.MaxLoRARanks``, by which it reserves memory."""

_PLACE = "rollout.engine.weight_transfer"
Call = Callable[[str, dict[str, Any]], None]
"""Has a method of ``VLLMWeightSyncClient`` called in every worker of the engine, with its argument; waits for it."""


@runtime_checkable
class WeightTransfer(Protocol):
    """A way for weights: ``rollout.engine.weight_transfer``. Picklable, as the engine tells it to the trainer."""

    @property
    def backend(self) -> str:
        """VLLM's name for it; empty where none of its engines takes part."""
        ...

    def connect(self, call: Call, num_workers: int) -> WeightSender:
        """Connect this process's GPU with the workers, so many processes of the engine."""
        ...


@option("rollout/weight_transfer", "reload", package=_PLACE, hidden=("backend",))
@dataclass(frozen=True, slots=True)
class Reload:
    """The engine reads tensors that it is handed: by reference in the trainer's process, else through memory.

    The only way on a CPU. On a GPU in the trainer's process nothing is copied but into the engine's own weights.
    """

    backend: str = ""

    def connect(self, call: Call, num_workers: int) -> WeightSender:
        """Raise TypeError: there is nothing to connect, as tensors are handed to ``load_weights``."""
        raise TypeError("weights that are reloaded need no connection")


@option(
    "rollout/weight_transfer",
    "adapter",
    package=_PLACE,
    hidden=("backend",),
    rank="${parameters.rank}",
    max_staleness="${rollout.max_staleness}",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter(Reload):
    """The engine keeps the initial weights and reads the adapters of parameters=lora alone: megabytes, not the model.

    Args:
        rank: of the adapters, ``parameters.rank``.
        max_staleness: by how many steps the policy that samples lags behind, ``rollout.max_staleness``: the engine then
            holds the versions of as many steps side by side, and samples from all of them at once.

    Raises:
        ValueError: vLLM has no room for that rank.
    """

    rank: int
    max_staleness: int = 0

    def __post_init__(self) -> None:
        """Check the rank."""
        if not 0 < self.rank <= _LORA_RANKS[-1]:
            raise ValueError(
                f"rollout.engine.weight_transfer.rank must be from 1 to {_LORA_RANKS[-1]}, vLLM's largest; got "
                f"{self.rank}: use rollout/weight_transfer=reload for larger ones"
            )

    @property
    def num_versions(self) -> int:
        """Policy versions that are asked for at once: that of the step that trains and of those that follow it."""
        return self.max_staleness + 1

    @property
    def max_rank(self) -> int:
        """The least of vLLM's ranks with room for it."""
        return next(rank for rank in _LORA_RANKS if rank >= self.rank)


@option("rollout/weight_transfer", "ipc", package=_PLACE, hidden=("backend",))
@dataclass(frozen=True, slots=True)
class CudaIpc:
    """Handles to the trainer's GPU memory, for an engine in another process on the same GPU. Never run by us.

    This is vLLM's CUDA IPC. Tensors go through one buffer on the GPU, chunk by chunk: whatever the trainer gathers may
    be freed at once.

    Args:
        buffer_mib: MiB of that buffer; must hold the largest tensor (a vocabulary of 152k by 3,584 in bfloat16 is
            1,039).

    Raises:
        ValueError: it is not positive.
    """

    buffer_mib: int = 2048
    backend: str = "ipc"

    def __post_init__(self) -> None:
        """Check the size."""
        _check_buffer(self.buffer_mib)

    def connect(self, call: Call, num_workers: int) -> WeightSender:
        """Agree with the workers on packed transfer."""
        settings = {"packed": True, "packed_buffer_size_bytes": self.buffer_mib * 2**20}
        return WeightSender(self.backend, settings, call)


@option("rollout/weight_transfer", "nccl", package=_PLACE, hidden=("backend",))
@dataclass(frozen=True, slots=True)
class Nccl:
    """vLLM's NCCL broadcast from the trainer's GPU to an engine on other GPUs. Never run by us.

    Args:
        master_address: where the trainer's process can be reached from the engine's.
        master_port: free there.
        buffer_mib: tensors are gathered, announced and sent in chunks of about so many MiB.
        time_limit_s: seconds for one chunk. A broadcast whose other side died never returns; after this the step fails.

    Raises:
        ValueError: a value is out of range.
    """

    master_address: str = "127.0.0.1"
    master_port: int = 29517
    buffer_mib: int = 1024
    time_limit_s: float = 300.0
    backend: str = "nccl"

    def __post_init__(self) -> None:
        """Check the ranges."""
        _check_buffer(self.buffer_mib)
        if not 0 < self.master_port < 2**16:
            raise ValueError(f"rollout.engine.weight_transfer.master_port must be a port; got {self.master_port}")
        if self.time_limit_s <= 0:
            raise ValueError(f"rollout.engine.weight_transfer.time_limit_s must be positive; got {self.time_limit_s}")

    def connect(self, call: Call, num_workers: int) -> WeightSender:
        """Build the group of the trainer, rank 0, and the workers."""
        meeting = {"master_address": self.master_address, "master_port": self.master_port}
        settings = meeting | {"world_size": 1 + num_workers, "packed": True}
        chunk_bytes = self.buffer_mib * 2**20
        return WeightSender(self.backend, settings, call, chunk_bytes=chunk_bytes, time_limit_s=self.time_limit_s)


class WeightSender:
    """A connection from the trainer to the workers of one engine, by the trainer's half of vLLM's weight transfer.

    Chunks are sent between one start and one finish, which are called here.

    Args:
        backend: vLLM's name for the way.
        settings: of that backend (:func:`.vllm_versions.trainer_half`).
        call: see :data:`Call`.
        chunk_bytes: size of what is gathered at once; 0 hands the tensors over one by one, for a backend that asks for
            no metadata beforehand.
        time_limit_s: seconds for one chunk; 0 sets none, where ``call`` has limits of its own.
    """

    def __init__(
        self,
        backend: str,
        settings: Mapping[str, Any],
        call: Call,
        *,
        chunk_bytes: int = 0,
        time_limit_s: float = 0.0,
    ) -> None:
        self._call = call
        self._chunk_bytes = chunk_bytes
        self._time_limit_s = time_limit_s
        self._half = trainer_half(backend, settings, _Client(call))

    def send(self, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
        """Replace the engine's weights by these, which are on the trainer's GPU and in the engine's own type."""
        import torch  # not above: a Ray actor unpickles this before its environment is set

        self._call("start_weight_update", {})
        if self._chunk_bytes:
            for chunk in chunks(named_tensors, self._chunk_bytes):
                # VLLM packs on streams of its own, which do not wait for the casts and gathers that made these.
                if torch.cuda.is_available():
                    torch.cuda.current_stream().synchronize()
                _within(self._time_limit_s, partial(self._half.send, chunk))
        else:
            self._half.send(named_tensors)
        self._call("finish_weight_update", {})
        if torch.cuda.is_available():  # now that the workers have let go of the buffer
            torch.cuda.ipc_collect()

    def close(self) -> None:
        """Leave the group."""
        self._half.shutdown()


class _Client:
    """vLLM's ``VLLMWeightSyncClient`` without start and finish, which stand around all chunks."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Have the workers connect."""
        self._call("init_weight_transfer_engine", init_info)

    def start_weight_update(self) -> None:
        """Done around all chunks."""

    def update_weights(self, update_info: Any) -> None:
        """Have the workers read one chunk."""
        self._call("update_weights", update_info)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Done around all chunks."""


def _within(limit_s: float, send: Callable[[], None]) -> None:
    """Run a call that may never return, for so long at most.

    Raises:
        TimeoutError: it did not return.
        Exception: whatever it raised.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            send()
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise TimeoutError(
            f"a weight transfer did not end within {limit_s:g} s; NCCL leaves the GPU waiting, so end the run and "
            "continue it with ckpt=last, or start it again if it has no checkpoint"
        )
    if errors:
        raise errors[0]


def _check_buffer(buffer_mib: int) -> None:
    if buffer_mib < 1:
        raise ValueError(f"rollout.engine.weight_transfer.buffer_mib must be at least 1; got {buffer_mib}")
