"""What ``auto`` means for the trainer on this machine."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, open_dict

from ada_lightning.parallel.environment import Launch, launch
from ada_lightning.run.machine import has_fast_bfloat16

AUTO = "auto"
_SHARDED = "ada_lightning.parallel.strategies.ShardedStrategy"


def choose_hardware(trainer: DictConfig, *, num_gpus: int | None = None, launched: Launch | None = None) -> str:
    """Replace every ``auto`` of accelerator, devices, num_nodes, strategy and precision by what is here.

    Args:
        trainer: node of the configuration; changed.
        num_gpus: on this machine; counted if not given.
        launched: how this process was started; read from the environment if not given.

    Returns:
        One line on what was chosen; empty where nothing but the precision was left open.
    """
    line = _choose_devices(trainer, num_gpus, launched)
    if trainer.get("precision") == AUTO:
        trainer.precision = fast_precision(str(trainer.get("accelerator", AUTO)))
    return line


def fast_precision(accelerator: str = AUTO) -> str:
    """Return what a trainer computes fast in: ``bf16-mixed`` on a GPU and on a CPU that has bfloat16, or ``32-true``.

    Args:
        accelerator: of Lightning's trainer; ``auto``: a GPU where there is one.
    """
    on_gpu = accelerator != "cpu" and (accelerator != AUTO or count_gpus() > 0)
    return "bf16-mixed" if has_fast_bfloat16(on_gpu=on_gpu) else "32-true"


def _choose_devices(trainer: DictConfig, num_gpus: int | None, launched: Launch | None) -> str:
    keys = [key for key in ("accelerator", "devices", "num_nodes", "strategy") if trainer.get(key) == AUTO]
    if not keys:
        return ""
    started = launched or launch()
    gpus = count_gpus() if num_gpus is None else num_gpus
    with open_dict(trainer):
        if "accelerator" in keys:
            trainer.accelerator = "cuda" if gpus else "cpu"
        if "devices" in keys:
            by_itself = gpus if trainer.accelerator in ("cuda", "gpu") else 1
            trainer.devices = started.processes_per_node if started.launcher else max(by_itself, 1)
        if "num_nodes" in keys:
            trainer.num_nodes = started.num_nodes
        num_processes = _number(trainer.devices) * _number(trainer.num_nodes)
        if "strategy" in keys and num_processes > 1:
            trainer.strategy = {"_target_": _SHARDED}
    return _line(trainer, num_processes, started)


def check_devices(trainer: DictConfig, *, num_gpus: int | None = None, launched: Launch | None = None) -> None:
    """Refuse CUDA GPUs that this machine does not have; Lightning does when the model has been loaded.

    The arguments are those of :func:`choose_hardware`, after it.

    Raises:
        ValueError: there are fewer than ``devices``.
    """
    wanted = trainer.get("accelerator"), trainer.get("devices")
    if wanted[0] != "cuda" or not isinstance(wanted[1], int):  # "gpu" may be of another maker
        return
    gpus = count_gpus() if num_gpus is None else num_gpus
    by = (launched or launch()).launcher
    if gpus >= wanted[1]:
        return
    has = f"{gpus} on this machine" if gpus else "none on this machine, or this torch cannot use it"
    way_out = f"let {by} start fewer processes on each machine" if by and gpus else "use trainer=auto for what is here"
    if by and gpus == 1:  # Lightning gives each process the GPU of its number
        way_out += ", or show every process all of them (with Slurm: --gpus-per-node, not --gpus-per-task)"
    raise ValueError(
        f"trainer.accelerator = cuda, trainer.devices = {wanted[1]}: torch sees {has} (torch.cuda.device_count()); "
        f"{way_out}"
    )


def _line(trainer: DictConfig, num_processes: int, started: Launch) -> str:
    place = f"{trainer.devices} on each of {trainer.num_nodes} machines" if _number(trainer.num_nodes) > 1 else "here"
    count = f"{num_processes} processes, {place}" if num_processes > 1 else "one process"
    strategy: Any = trainer.get("strategy", AUTO)
    kind = strategy._target_.rpartition(".")[2] if isinstance(strategy, DictConfig) else "no strategy"
    by = f", started by {started.launcher}" if started.launcher else ""
    return f"trainer: {count} on {trainer.accelerator}, {kind}{by}"


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 1


def count_gpus() -> int:
    """GPUs that torch can use on this machine."""
    import torch

    return torch.cuda.device_count()
