"""The hooks that Lightning does not have: a rollout step ended, an evaluation ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning.pytorch import Callback, LightningModule, Trainer

if TYPE_CHECKING:
    from ada_lightning.core.step_records import EvaluationResult, RolloutResult


def listeners(trainer: Trainer) -> list[RolloutListener]:
    """Return the trainer's callbacks that want to hear of rollouts and evaluations, in their order."""
    callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
    return [callback for callback in callbacks if isinstance(callback, RolloutListener)]


class RolloutListener(Callback):
    """A callback that also hears of rollouts and evaluations. Override what you need."""

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """All groups of a step are complete; no update with them has happened yet."""

    def rollout_figures(self, result: RolloutResult) -> dict[str, float]:
        """Return figures of a rollout by name, logged with its step and watched by alarms as all others are."""
        return {}

    def on_evaluation_end(self, trainer: Trainer, pl_module: LightningModule, result: EvaluationResult) -> None:
        """A held-out evaluation is complete."""
