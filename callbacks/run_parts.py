"""The policy and the data of a run, as a callback finds them."""

from __future__ import annotations

from lightning.pytorch import LightningModule, Trainer

from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.training.policy import PolicyModule


def run_parts(trainer: Trainer, pl_module: LightningModule) -> tuple[PolicyModule, RolloutDataModule]:
    """Return both with their own types.

    Raises:
        TypeError: the trainer fits something else.
    """
    data = getattr(trainer, "datamodule", None)
    if not isinstance(pl_module, PolicyModule) or not isinstance(data, RolloutDataModule):
        raise TypeError(
            "this callback works with PolicyModule and RolloutDataModule; "
            f"got {type(pl_module).__name__} and {type(data).__name__}"
        )
    return pl_module, data
