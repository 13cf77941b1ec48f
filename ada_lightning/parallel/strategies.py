"""Lightning strategies for several processes: weights in shards, or a copy on each."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.fabric.plugins.environments import SLURMEnvironment
from lightning.fabric.utilities.types import _PATH
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from lightning.pytorch.strategies.strategy import Strategy
from torch.optim import Optimizer

from ada_lightning.parallel.optimizer_state import read_optimizer_state, take_whole_state, write_optimizer_state
from ada_lightning.parallel.process_ranks import ProcessRanks
from ada_lightning.parallel.sharding import DATA, Sharding

OPTIMIZER_FOLDER = "optimizer"
"""Part of a checkpoint, next to the trainer's state: the optimiser's state, in shards."""


class ShardedStrategy(ModelParallelStrategy):
    """Weights, gradients and optimiser state in shards (FSDP2), optionally with tensor parallelism inside of layers.

    A checkpoint's weights are its Hugging Face folder, so this keeps only the optimiser's state, in a folder that any
    number of processes can continue from.

    Args:
        data_parallel_size: parts that a batch is cut into, and that everything is sharded over; ``auto``: as many as
            there are processes, divided by ``tensor_parallel_size``.
        tensor_parallel_size: processes that compute each layer together; keep them on one machine.
        timeout_minutes: after which a collective that some process does not reach is an error, and after which a host
            of which nothing is heard counts as lost: the processes on the others then end.

    Raises:
        ValueError: a size is out of range.
    """

    def __init__(
        self,
        *,
        data_parallel_size: int | Literal["auto"] = "auto",
        tensor_parallel_size: int = 1,
        timeout_minutes: float = 30.0,
    ) -> None:
        if data_parallel_size != "auto" and not _is_count(data_parallel_size):
            raise ValueError(f"data_parallel_size must be auto or at least 1; got {data_parallel_size!r}")
        if not _is_count(tensor_parallel_size):
            raise ValueError(f"tensor_parallel_size must be at least 1; got {tensor_parallel_size!r}")
        super().__init__(
            data_parallel_size=data_parallel_size,
            tensor_parallel_size=tensor_parallel_size,
            timeout=_timeout(timeout_minutes),
        )
        self._timeout_s = 60 * timeout_minutes

    def setup_environment(self) -> None:
        """Connect the processes and tell the policy how it is spread over them."""
        num_processes = self.num_nodes * self.num_processes
        assert isinstance(self._tensor_parallel_size, int)
        if problem := size_problem(self._data_parallel_size, self._tensor_parallel_size, num_processes):
            raise ValueError(problem)
        self._data_parallel_size = num_processes // self._tensor_parallel_size
        super().setup_environment()
        _never_requeue(self)
        policy: Any = self.lightning_module
        sharding = Sharding(self.device_mesh, low_precision=self.precision_plugin.precision == "bf16-mixed")
        mesh = self.device_mesh[DATA]
        ranks = ProcessRanks(replica=mesh.get_local_rank(), num_replicas=mesh.size())
        ranks.watch_hosts(self._timeout_s)
        policy.spread(ranks, sharding)

    def teardown(self) -> None:
        """Watch the other hosts no more: they end when they are through."""
        _watch_no_more(self)
        super().teardown()

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """Nothing: the weights stand in the checkpoint's Hugging Face folder."""
        return {}

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        """Nothing: :meth:`save_checkpoint` writes it in shards."""
        return {}

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: _PATH, storage_options: Any | None = None) -> None:
        """Write the optimiser's shards to a folder next to ``filepath``, all else to that file. Collective."""
        policy: Any = self.lightning_module
        checkpoint["optimizer_states"] = []
        settings = self.optimizers[0].param_groups[0]
        checkpoint["sharded_optimizer"] = {name: value for name, value in settings.items() if name != "params"}
        write_optimizer_state(
            Path(filepath).parent / OPTIMIZER_FOLDER, policy.model, self.optimizers[0], policy.ranks.group
        )
        if self.is_global_zero:
            self.checkpoint_io.save_checkpoint(checkpoint, filepath, storage_options)

    def load_checkpoint(self, checkpoint_path: _PATH, weights_only: bool | None = None) -> dict[str, Any]:
        """Read what :meth:`save_checkpoint` wrote with any number of processes, or what a run of one process wrote."""
        policy: Any = self.lightning_module
        folder = Path(checkpoint_path).parent / OPTIMIZER_FOLDER
        checkpoint: dict[str, Any] = torch.load(checkpoint_path, map_location="cpu", weights_only=True, mmap=True)
        if folder.exists():
            read_optimizer_state(folder, policy.model, self.optimizers[0], policy.ranks.group)
        else:
            take_whole_state(policy.model, self.optimizers[0], checkpoint["optimizer_states"][0]["state"])
        checkpoint["optimizer_states"] = []
        return checkpoint


class ReplicatedStrategy(DDPStrategy):
    """The whole model on every process, each with its part of the batch (data parallel).

    The policy is not wrapped: a step has many backward passes, so gradients are added up once, after the last
    (:func:`~ada_lightning.parallel.gradients.add_up`).

    Args:
        timeout_minutes: after which a collective that some process does not reach is an error, and after which a host
            of which nothing is heard counts as lost: the processes on the others then end.
    """

    def __init__(self, *, timeout_minutes: float = 30.0) -> None:
        super().__init__(timeout=_timeout(timeout_minutes))
        self._timeout_s = 60 * timeout_minutes

    def setup_environment(self) -> None:
        """Connect the processes."""
        super().setup_environment()
        _never_requeue(self)
        policy: Any = self.lightning_module
        ranks = ProcessRanks(replica=self.global_rank, num_replicas=self.world_size)
        ranks.watch_hosts(self._timeout_s)
        policy.spread(ranks)

    def teardown(self) -> None:
        """Watch the other hosts no more: they end when they are through."""
        _watch_no_more(self)
        super().teardown()

    def configure_ddp(self) -> None:
        """Leave the policy as it is."""


def size_problem(data_parallel_size: int | Literal["auto"], tensor_parallel_size: int, num_processes: int) -> str:
    """Say where sizes do not multiply to the number of processes; empty where they do."""
    data = data_parallel_size
    if num_processes % tensor_parallel_size == 0 and data in ("auto", num_processes // tensor_parallel_size):
        return ""
    return (
        f"trainer.strategy.data_parallel_size x tensor_parallel_size = {data} x {tensor_parallel_size} does not make "
        f"{num_processes} processes (trainer.devices x trainer.num_nodes); use data_parallel_size=auto and a "
        f"tensor_parallel_size that divides {num_processes}"
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _timeout(minutes: float) -> timedelta:
    if minutes <= 0:
        raise ValueError(f"timeout_minutes must be positive; got {minutes}")
    return timedelta(minutes=minutes)


def _watch_no_more(strategy: Strategy) -> None:
    ranks = getattr(strategy.lightning_module, "ranks", None)
    if isinstance(ranks, ProcessRanks):
        ranks.close()


def _never_requeue(strategy: Strategy) -> None:
    """Keep Lightning from saving inside of a signal handler, on whatever rank the signal reached: that hangs."""
    environment = getattr(strategy, "cluster_environment", None)
    if isinstance(environment, SLURMEnvironment):
        environment.auto_requeue = False
