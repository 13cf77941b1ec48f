"""Checks of how many processes train, and of what goes with several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lightning.pytorch.accelerators import AcceleratorRegistry
from omegaconf import DictConfig

from ada_lightning.config.view import ConfigView
from ada_lightning.methods.gradient_norms import PolicyGradientNorm
from ada_lightning.methods.published.preference import ComparesWithInitial
from ada_lightning.methods.published.spo import KlHistory
from ada_lightning.parallel.environment import Launch, launch
from ada_lightning.parallel.strategies import ReplicatedStrategy, ShardedStrategy, size_problem
from ada_lightning.rollout.engines.host import TrainerProcess
from ada_lightning.training.losses import PolicyLoss
from ada_lightning.training.models.lora import LoraParameters
from ada_lightning.training.token_masks import TokenMask


def accelerator_errors(run: ConfigView) -> Iterator[str]:
    """Lightning looks a name up when the trainer is made, after the model has been fetched."""
    accelerator = run.value("trainer.accelerator")
    names = sorted({"auto", "gpu", *AcceleratorRegistry.available_accelerators()})
    if isinstance(accelerator, str) and accelerator not in names:
        yield f"trainer.accelerator = {accelerator} is not a kind of device; use one of {', '.join(names)}"


def parallel_errors(run: ConfigView, launched: Launch | None = None) -> Iterator[str]:
    """Yield one message per problem, every ``auto`` of the trainer being resolved.

    How this process was started is read from the environment if it is not given.
    """
    counts = {key: run.value(key) for key in ("trainer.devices", "trainer.num_nodes")}
    wrong = {key: value for key, value in counts.items() if not isinstance(value, int) or value < 1}
    for key, value in wrong.items():
        if value is not None:
            yield f"{key} = {value} must be a number of at least 1; use {key}=1, or trainer=auto for this machine"
    if wrong:
        return
    num_processes = counts["trainer.devices"] * counts["trainer.num_nodes"]
    problems = [*_launch_errors(num_processes, launched or launch()), *_strategy_errors(run, num_processes)]
    yield from problems
    if not problems:  # else perhaps one process without a strategy was meant
        yield from _group_errors(run)
        if num_processes > 1:
            yield from _process_errors(run)
    yield from _shard_errors(run)


def check_sweep(cfg: DictConfig) -> None:
    """Refuse a sweep of several processes: its jobs would share process groups, and one failure end them all.

    Raises:
        ValueError: it is one.
    """
    run = ConfigView(cfg)
    if run.value("trainer.devices") != 1 or run.value("trainer.num_nodes") != 1:
        raise ValueError(
            "a sweep (-m) runs its jobs one after the other in this process, and each of these would take several; "
            "start every run by itself, with its own run_name, or use trainer.devices=1 trainer.num_nodes=1"
        )


def _launch_errors(num_processes: int, started: Launch) -> Iterator[str]:
    if started.launcher and started.num_processes != num_processes:
        yield (
            f"{started.launcher} started {started.num_processes} processes, but trainer.devices x trainer.num_nodes = "
            f"{num_processes}; use trainer=fsdp or trainer=ddp, which take the launcher's numbers, or start "
            f"{num_processes}"
        )


def _strategy_errors(run: ConfigView, num_processes: int) -> Iterator[str]:
    key = "trainer.strategy"
    if run.is_a(key, ShardedStrategy):
        sizes = [run.value(f"{key}.{name}_parallel_size") for name in ("data", "tensor")]
        data: Any = "auto" if sizes[0] is None else sizes[0]
        tensor = 1 if sizes[1] is None else sizes[1]
        if isinstance(tensor, int) and tensor >= 1 and (problem := size_problem(data, tensor, num_processes)):
            yield problem
    elif run.is_a(key, ReplicatedStrategy):
        return
    elif num_processes > 1:
        yield (
            f"trainer.devices x trainer.num_nodes = {num_processes}: several processes train with trainer=fsdp "
            "(weights in shards) or trainer=ddp (a copy of the model on each); or use trainer.devices=1 "
            "trainer.num_nodes=1"
        )
    elif run.kind(key) is not object or run.value(key) not in (None, "auto"):
        yield "trainer.strategy: one process needs none; leave it out, or use trainer=fsdp or trainer=ddp"


def _shard_errors(run: ConfigView) -> Iterator[str]:
    """What reads or adds whole weights does not go with shards of them."""
    keys = ("parameters", "loss", "sampler.gradient_norm", "estimator", "advantage", "advantage.advantage")
    for key in keys if run.is_a("trainer.strategy", ShardedStrategy) else ():
        part = run.kind(key)
        is_whole = issubclass(part, LoraParameters | PolicyGradientNorm | KlHistory | ComparesWithInitial)
        if is_whole or (issubclass(part, PolicyLoss) and part.has_parameters):
            yield f"{key} = {part.__name__} needs weights that are whole in every process; use trainer=ddp with it"


def _group_errors(run: ConfigView) -> Iterator[str]:
    """An engine in the trainer's process takes over torch's default group, and ends it when it closes."""
    if not run.is_a("trainer.strategy", ShardedStrategy, ReplicatedStrategy):
        return
    if run.is_a("rollout.host", TrainerProcess) and run.name("rollout.engine") == "VllmEngine":
        yield (
            f"rollout.host = {run.name('rollout.host')}: the engine would take over torch's process group, which "
            f"trainer.strategy = {run.name('trainer.strategy')} needs for itself; use "
            f"{'rollout=ray_gpu' if run.is_gpu else 'rollout=vllm_process'}, which gives it a process of its own"
        )


def _process_errors(run: ConfigView) -> Iterator[str]:
    """Each of several processes sees a part of an update."""
    for name in run.names("token_masks"):
        mask = run.kind(f"token_masks.{name}")
        if issubclass(mask, TokenMask) and mask.models_update:
            yield (
                f"token_masks.{name} models the coming update, and each of several processes would see its own part of "
                "it only; train in one process with it"
            )
