"""The hooks that Lightning does not have (a rollout, a step, an evaluation ended), and the log that tells of steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lightning.pytorch import Callback, LightningModule, Trainer

from ada_lightning.analysis.metrics.rollout import EstimatorCalibration, RolloutMetrics, effective_weights
from ada_lightning.core.following import without_hints
from ada_lightning.rollout.grader import LostAmounts

if TYPE_CHECKING:
    from ada_lightning.core.records import ResponseGroup
    from ada_lightning.core.step_records import EvaluationResult, RolloutResult
    from ada_lightning.rollout.probe import GapLimits
    from ada_lightning.rollout.service import RolloutService
    from ada_lightning.training.policy import PolicyModule


def listeners(trainer: Trainer) -> list[RolloutListener]:
    """Return the trainer's callbacks that want to hear of rollouts and evaluations, in their order."""
    callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
    return [callback for callback in callbacks if isinstance(callback, RolloutListener)]


class RolloutListener(Callback):
    """A callback that also hears of rollouts, steps and evaluations. Override what you need."""

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """All groups of a step are complete; no update with them has happened yet."""

    def rollout_figures(self, result: RolloutResult) -> dict[str, float]:
        """Return figures of a rollout by name, logged with its step and watched by alarms as all others are."""
        return {}

    def on_step_end(self, trainer: Trainer, pl_module: LightningModule, figures: Mapping[str, float]) -> None:
        """The last update of a rollout step is done and logged. Called in the process that samples.

        ``figures`` are those of the step's rollout and of its updates, none of an earlier step.
        """

    def on_evaluation_end(self, trainer: Trainer, pl_module: LightningModule, result: EvaluationResult) -> None:
        """A held-out evaluation is complete."""

    def on_nothing_left(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A resumed run has no update left, and Lightning starts no training. Called in every process."""


def tell_nothing_left(trainer: Trainer, policy: PolicyModule) -> None:
    """Tell those that listen: see :meth:`RolloutListener.on_nothing_left`."""
    for listener in listeners(trainer):
        listener.on_nothing_left(trainer, policy)


class StepLog:
    """Collects the figures of a step, logs them and tells those that listen. In the process that samples.

    Straight to the loggers: Lightning's ``log`` repeats a figure in every later step that does not log it anew.

    Args:
        trainer: with loggers and listeners.
        policy: whose updates are logged.
        service: whose engine samples.
        gaps: how far engine and trainer may differ.
    """

    def __init__(self, trainer: Trainer, policy: PolicyModule, service: RolloutService, gaps: GapLimits) -> None:
        self._trainer, self._policy, self._service, self._gaps = trainer, policy, service, gaps
        self._lost = LostAmounts(policy.advantage, service.settings.positive_threshold)
        self._metrics = RolloutMetrics()
        self._of_rollout: dict[str, float] = {}
        """Logged with the first update that is made of the rollout."""
        self._of_step: dict[str, float] = {}

    def note_rollout(
        self, result: RolloutResult, groups: Sequence[ResponseGroup], figures: Mapping[str, float]
    ) -> None:
        """Take a rollout, the groups of it that train, and further figures."""
        self._lost.warn(groups)
        calibration = EstimatorCalibration(sync_on_compute=False)  # one process rolls out
        calibration.update([group.pool for group in without_hints(result.groups)])
        found = self._metrics(result) | {name: float(value) for name, value in calibration.compute().items()}
        if self._service.stream_gradients:
            found["rollout/latency_s"] = result.stats.seconds
        found["rollout/engine_restarts"] = float(self._service.engine.num_restarts)
        self._of_step = {}
        self._of_rollout = {**found, **figures, **effective_weights(groups)}
        for listener in listeners(self._trainer):
            self._of_rollout |= listener.rollout_figures(result)
            listener.on_rollout_end(self._trainer, self._policy, result)

    def end_update(self, learn: Callable[[Mapping[str, float]], object] | None) -> None:
        """Log an update, the rollout with the first one made of it, and the step's seconds with the last.

        Args:
            learn: called with all figures of the step where the update is its last; else None.

        Raises:
            RunStoppedError: engine and trainer differ too much, or a listener stops the run.
        """
        policy = self._policy
        figures, self._of_rollout = self._of_rollout, {}
        if learn is not None:
            figures |= {f"time/{phase}_s": seconds for phase, seconds in policy.clock.step_seconds().items()}
            policy.clock.end_step()
        figures |= policy.update_metrics
        self._of_step |= figures
        if learn is not None:
            learn(self._of_step)
        policy.log_dict(figures, logger=False)  # for callbacks that read trainer.callback_metrics
        for logger in self._trainer.loggers:
            logger.log_metrics(figures, step=policy.policy_version - 1)
        self._gaps.check(figures)
        for listener in listeners(self._trainer) if learn is not None else ():
            listener.on_step_end(self._trainer, policy, dict(self._of_step))
