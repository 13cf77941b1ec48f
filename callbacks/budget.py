"""Ends a run when it has spent what it may: for comparing methods at equal cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lightning.pytorch import LightningModule, Trainer

from ada_lightning.run.terminal import duration

from .rollout_listener import RolloutListener

if TYPE_CHECKING:
    from ada_lightning.core.step_records import RolloutResult

LEARNING_PHASES = ("sync", "estimate", "rollout", "represent", "gradient_norm", "grade", "update")
"""Phases whose seconds count: what a step takes, without the start of the run, evaluations and checkpoints."""


class Budget(RolloutListener):
    """Ends the run after the step with which a budget is spent; the final evaluation and checkpoint follow as usual.

    Methods differ in how many responses a step draws and how long it takes, so runs with the same number of steps are
    not comparable. Give all of them one budget, and a ``num_steps`` that none reaches.

    Counts travel with the checkpoint. A run that is continued with its budget spent makes one step more and ends.

    Args:
        max_generated_tokens: response tokens drawn for training, wasted ones included; ``inf`` sets no limit.
        max_seconds: seconds of syncing weights, rollouts with what their estimators and samplers compute of the policy,
            grading and updates; ``inf`` sets no limit.

    Raises:
        ValueError: a budget is not positive.
    """

    def __init__(self, *, max_generated_tokens: float = math.inf, max_seconds: float = math.inf) -> None:
        for name, value in (("max_generated_tokens", max_generated_tokens), ("max_seconds", max_seconds)):
            if not value > 0:
                raise ValueError(f"callbacks.budget.{name} must be above 0, inf sets no limit; got {value}")
        self.max_generated_tokens = max_generated_tokens
        self.max_seconds = max_seconds
        self._num_tokens = 0
        self._num_unfinished_tokens = 0
        self._earlier_seconds = 0.0
        self._clock: Any = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Read the run's clock."""
        module: Any = pl_module
        self._clock = module.clock

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """Note what was drawn; it counts with the first update made of it."""
        self._num_unfinished_tokens = result.stats.drawn_tokens

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End the run, in all of its processes, where a budget is spent and the step's last update is done."""
        self._num_tokens += self._num_unfinished_tokens
        self._num_unfinished_tokens = 0
        datamodule: Any = trainer.datamodule  # type: ignore[attr-defined]
        if batch.update_index < datamodule.updates_per_rollout - 1:
            return
        spent = self._what_is_spent()
        if trainer.strategy.reduce_boolean_decision(bool(spent), all=False):  # one process alone draws
            trainer.should_stop = True
            if spent:
                print(f"budget spent: {spent}", flush=True)

    def share_spent(self) -> float:
        """Of the budget that is spent furthest, with what the running step has drawn; from 0 to 1."""
        num_tokens = self._num_tokens + self._num_unfinished_tokens
        return min(max(num_tokens / self.max_generated_tokens, self._seconds() / self.max_seconds), 1.0)

    def state_dict(self) -> dict[str, Any]:
        """What has been spent."""
        return {"generated_tokens": self._num_tokens, "seconds": self._seconds()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        self._num_tokens = int(state_dict["generated_tokens"])
        self._earlier_seconds = float(state_dict["seconds"])

    def _what_is_spent(self) -> str:
        if self._num_tokens >= self.max_generated_tokens:
            return f"{self._num_tokens:,} of {self.max_generated_tokens:,} generated tokens"
        if self._seconds() >= self.max_seconds:
            return f"{duration(self._seconds())} of {duration(self.max_seconds)}"
        return ""

    def _seconds(self) -> float:
        now = self._clock.total_seconds() if self._clock else {}
        return self._earlier_seconds + sum(now.get(phase, 0.0) for phase in LEARNING_PHASES)


def share_spent(trainer: Trainer) -> float:
    """Of the run's budget that is spent furthest, from 0 to 1; 0 without one."""
    callbacks: list[Any] = trainer.callbacks  # type: ignore[attr-defined]
    return max((callback.share_spent() for callback in callbacks if isinstance(callback, Budget)), default=0.0)
