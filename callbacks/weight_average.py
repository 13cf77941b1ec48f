"""An exponential average of the policy's weights, measured and saved with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from ada_lightning.training.policy import PolicyModule


class WeightAverage(Callback):
    """Keeps ``average <- decay average + (1 - decay) weights`` in float32 after every update, free of its start.

    At a constant learning rate the weights jitter around their way; the average follows it with less noise and a lag of
    ``decay / (1 - decay)`` updates. It is measured after the weights at every evaluation (``eval_average/avg_at_<k>``)
    and saved with them (``policy_average/`` of a checkpoint, for ``evaluate.py``, transformers and vLLM). Training
    and rollouts never see it. It takes the memory of the trained parameters once.

    Every update counts ``(1 - decay) decay^age`` of their sum, so that the first ones are no more than their share.
    That is the same as an average that starts at zero, divided by ``1 - decay^n`` (Kingma and Ba 2015, section 3).

    Args:
        decay: share of the average that stays at an update; 0 keeps none, and costs nothing.

    Raises:
        ValueError: ``decay`` outside [0, 1).
    """

    def __init__(self, *, decay: float = 0.0) -> None:
        if not 0 <= decay < 1:
            raise ValueError(
                "callbacks.weight_average.decay must be in [0, 1): 0 keeps no average, 0.99 one of about 100 updates; "
                f"got {decay}"
            )
        self.decay = decay
        self.num_updates = 0
        self._average: list[Tensor] = []
        self._policy: PolicyModule | None = None

    @property
    def is_there(self) -> bool:
        """Whether there is an average yet."""
        return self.num_updates > 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Find out whether each process has the weights whole.

        Raises:
            ValueError: it has not.
        """
        assert isinstance(pl_module, PolicyModule)
        if self.decay and pl_module.sharding is not None:
            raise ValueError(
                f"callbacks.weight_average.decay = {self.decay} averages whole weights, but trainer=fsdp spreads them "
                "over processes; use trainer=ddp, or callbacks.weight_average.decay=0"
            )
        self._policy = pl_module

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Let the weights after an update in."""
        assert isinstance(pl_module, PolicyModule)
        if not self.decay:
            return
        self.num_updates += 1
        weights = [parameter.detach() for parameter in pl_module.trained.trainable(pl_module.model)]
        if not self._average:
            self._average = [weight.to(torch.float32, copy=True) for weight in weights]
            return
        share = (1 - self.decay) / (1 - self.decay**self.num_updates)
        # A checkpoint is read to the CPU, wherever the weights are.
        self._average = [average.to(weight.device) for average, weight in zip(self._average, weights, strict=True)]
        for average, weight in zip(self._average, weights, strict=True):
            average.lerp_(weight.to(torch.float32), share)

    @contextmanager
    def as_weights(self) -> Iterator[None]:
        """Have the policy hold the average in the place of its weights, which come back untouched."""
        assert self._policy is not None
        parameters = list(self._policy.trained.trainable(self._policy.model))
        weights = [parameter.data for parameter in parameters]
        try:
            for parameter, average in zip(parameters, self._average, strict=True):
                parameter.data = average.to(parameter.device, parameter.dtype)
            yield
        finally:
            for parameter, weight in zip(parameters, weights, strict=True):
                parameter.data = weight

    def state_dict(self) -> dict[str, Any]:
        """The average; what the next update adds to."""
        return {"num_updates": self.num_updates, "average": self._average} if self.decay else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`; a run that kept none so far begins now, one that keeps none any more forgets."""
        if self.decay and state_dict:
            self.num_updates, self._average = int(state_dict["num_updates"]), list(state_dict["average"])


def average_of(trainer: Trainer) -> WeightAverage | None:
    """Return the average of a run's weights, where it has one by now."""
    callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
    return next((part for part in callbacks if isinstance(part, WeightAverage) and part.is_there), None)
