"""What of an engine's settings does not go together with where it lives and what the trainer runs on."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from ada_lightning.config.problems import class_at, number_at, value_at
from ada_lightning.rollout.engines.host import TrainerProcess
from ada_lightning.rollout.engines.ray_pool import RayPool
from ada_lightning.rollout.engines.weight_transfer import CudaIpc, Reload


def rollout_errors(cfg: DictConfig) -> Iterator[str]:
    """Compare ``rollout.engine``, ``rollout.host``, ``rollout.reproducible`` and ``trainer``.

    Args:
        cfg: the composed configuration; ``trainer`` may be missing.

    Yields:
        One message per problem.
    """
    yield from _transfer_errors(cfg)
    yield from _reproducible_errors(cfg)
    level = number_at(cfg, "rollout.engine.sleep_level")
    is_cpu = value_at(cfg, "trainer.accelerator") == "cpu"
    if level and is_cpu:
        yield (
            f"rollout.engine.sleep_level = {level}: vLLM sleeps on a GPU only, and trainer.accelerator = cpu; "
            "use rollout.engine.sleep_level=0"
        )
    spread, gpus = number_at(cfg, "rollout.engine.tensor_parallel_size"), number_at(cfg, "rollout.host.num_gpus")
    if class_at(cfg, "rollout.host") is RayPool and not is_cpu and spread and gpus is not None and gpus < spread > 1:
        yield (
            f"rollout.host.num_gpus = {gpus} is less than rollout.engine.tensor_parallel_size = {spread}: an engine "
            f"needs a GPU for each part; use rollout.host.num_gpus={spread}"
        )


def _reproducible_errors(cfg: DictConfig) -> Iterator[str]:
    """An engine that decodes by itself, between two polls too, has batches that follow the clock."""
    host = class_at(cfg, "rollout.host")
    if value_at(cfg, "rollout.reproducible") is True and host is not object and not issubclass(host, TrainerProcess):
        yield (
            f"reproducible=true does not go with rollout.host = {host.__name__}: an engine outside of the trainer's "
            "process steps by its own clock, so what runs beside what in it differs from run to run, and with it the "
            "rounding; use rollout=vllm_cpu or vllm_gpu with one training process, or reproducible=false"
        )


def _transfer_errors(cfg: DictConfig) -> Iterator[str]:
    transfer = class_at(cfg, "rollout.engine.weight_transfer")
    if transfer in (object, Reload):
        return
    name, way_out = transfer.__name__, "use rollout/weight_transfer=reload"
    if value_at(cfg, "trainer.accelerator") == "cpu":
        yield f"rollout.engine.weight_transfer: {name} goes from GPU to GPU, and trainer.accelerator = cpu; {way_out}"
    host = class_at(cfg, "rollout.host")
    if host in (object, TrainerProcess):
        yield (
            f"rollout.engine.weight_transfer: {name} goes to another process, and the engine lives in the trainer's; "
            f"{way_out}, which copies nothing there, or rollout=vllm_gpu_process"
        )
    elif host is RayPool:
        yield (
            f"rollout.engine.weight_transfer: {name} reaches no engine that replaces another within a step; {way_out} "
            "with rollout.host = RayPool: weights stay in Ray's object store"
        )
    devices = number_at(cfg, "trainer.devices")
    if transfer is CudaIpc and devices is not None and devices > 1:
        yield (
            f"rollout.engine.weight_transfer: {name} shares one GPU with one training process, and trainer.devices = "
            f"{devices}; use rollout/weight_transfer=nccl"
        )
