"""Drives the engine: one adaptive rollout per step, from the policy that the next update will change."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from ada_lightning.batch import TrainingBatch
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.metrics.calibration import EstimatorCalibration
from ada_lightning.metrics.curriculum import curriculum_figures
from ada_lightning.metrics.rollout import RolloutMetrics
from ada_lightning.policy import PolicyModule
from ada_lightning.protocols import (
    BatchSelection,
    PassRateEstimator,
    RememberingEstimator,
    RolloutAdvantage,
    Sampler,
    SelectionRule,
)
from ada_lightning.rewards.pool import RewardPool
from ada_lightning.rollout.result import RolloutResult
from ada_lightning.rollout.service import RolloutService
from ada_lightning.types import Prompt, ResponseGroup, ResponsePool
from callbacks.rollout_listener import listeners


class AdaptiveSampling(Callback):
    """Connects sampler, engine, graders and selection to the data module's stream.

    Args:
        service: the engine, shared with evaluation.
        grader: reward workers, shared with evaluation.
        estimator: what pass rate to expect of each prompt.
        sampler: who gets more samples, who stops.
        selection: what is kept of a pool.
        tokenizer: of the policy.
        eos_token_ids: tokens that end a response.
        run_dir: engine log lines go to ``engine.log`` in it.
        max_logprob_gap: warn where engine and trainer differ by more than this mean of nats per token, as they do when
            weights do not arrive. Bfloat16 alone gives about 0.025.
    """

    def __init__(
        self,
        *,
        service: RolloutService,
        grader: RewardPool,
        estimator: PassRateEstimator,
        sampler: Sampler,
        selection: SelectionRule | BatchSelection,
        tokenizer: Any,
        eos_token_ids: Sequence[int],
        run_dir: str | Path,
        max_logprob_gap: float = 0.3,
    ) -> None:
        self.service = service
        self.grader = grader
        self.estimator = estimator
        self.sampler = sampler
        self.selection = selection
        self.tokenizer = tokenizer
        self.eos_token_ids = tuple(eos_token_ids)
        self.run_dir = Path(run_dir)
        self.max_logprob_gap = max_logprob_gap
        self._metrics = RolloutMetrics(sync_on_compute=False)  # one process rolls out
        self._calibration = EstimatorCalibration(sync_on_compute=False)
        self._pending_metrics: dict[str, float] = {}
        self._unlearned: list[ResponsePool] = []

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Connect before the data loader is asked for: Lightning fetches a batch before ``on_train_batch_start``."""
        policy, data = _parts(trainer, pl_module)
        data.connect(
            collect=lambda step, prompts: self._collect(trainer, policy, data, step, prompts),
            score_old=policy.score_old,
            keep_groups_without_signal=policy.loss.needs_groups_without_signal,
            recall=self.estimator.recall if isinstance(self.estimator, RememberingEstimator) else None,
            ranks=policy.ranks,
        )

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start graders and engine, in the leading process."""
        policy, _ = _parts(trainer, pl_module)
        policy.ranks.lead(lambda: self._start(policy))

    def _start(self, policy: PolicyModule) -> None:
        with policy.clock.phase("start"):
            self.grader.start()
            self.service.open(
                model_path=policy.reference_path,  # outlives every checkpoint; the first sync brings the weights
                tokenizer=self.tokenizer,
                eos_token_ids=self.eos_token_ids,
                grader=self.grader,
                log_file=self.run_dir / "engine.log",
            )

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: TrainingBatch, batch_idx: int
    ) -> None:
        """Log the update, the rollout with the first update made of it, and the step's seconds with the last.

        Straight to the loggers: Lightning's ``log`` repeats a figure in every later step that does not log it anew.
        """
        policy, data = _parts(trainer, pl_module)
        data.num_updates_done = policy.policy_version
        policy.ranks.lead(lambda: self._log_update(trainer, policy, data, batch))

    def _log_update(
        self, trainer: Trainer, policy: PolicyModule, data: RolloutDataModule, batch: TrainingBatch
    ) -> None:
        is_last = batch.minibatch_index == data.num_minibatches - 1
        metrics, self._pending_metrics = self._pending_metrics, {}
        if is_last:
            metrics |= {f"time/{phase}_s": seconds for phase, seconds in policy.clock.step_seconds().items()}
            policy.clock.end_step()
        metrics |= policy.update_metrics
        if is_last:
            self._learn(metrics)
        gap = metrics.get("sync/logprob_gap", 0.0)
        if gap > self.max_logprob_gap:
            warnings.warn(
                f"the engine's log-probabilities differ from the trainer's by {gap:.3f} nat per token, above "
                f"max_logprob_gap = {self.max_logprob_gap}: are the weights in the engine the trainer's?",
                RuntimeWarning,
                stacklevel=2,
            )
        policy.log_dict(metrics, logger=False)  # for callbacks that read trainer.callback_metrics
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=policy.policy_version - 1)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Stop engine and graders, however the run ended."""
        self.service.close()
        self.grader.close()

    def state_dict(self) -> dict[str, Any]:
        """What sampler and estimator remember of the steps that are done."""
        state = {"sampler": self.sampler.state_dict(), "estimator": self.estimator.state_dict()}
        if isinstance(self.selection, BatchSelection):
            state["selection"] = self.selection.state_dict()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.sampler.load_state_dict(state_dict["sampler"])
        self.estimator.load_state_dict(state_dict["estimator"])
        if isinstance(self.selection, BatchSelection):
            self.selection.load_state_dict(state_dict.get("selection", {}))

    def _collect(
        self, trainer: Trainer, policy: PolicyModule, data: RolloutDataModule, step: int, prompts: Sequence[Prompt]
    ) -> tuple[Sequence[ResponseGroup], int]:
        chosen = self._chosen_figures(data, prompts)
        result = self.service.rollout(
            prompts,
            weights=policy.named_weights,
            policy_version=policy.policy_version,
            sampler=self.sampler,
            selection=self.selection,
            stage="train",
            step=step,
            beliefs=self.estimator.predict(prompts, policy.represent),
            clock=policy.clock,
            interrupt_check=policy.interrupt_check,
        )
        if isinstance(policy.advantage, RolloutAdvantage):
            result = replace(result, groups=_with_advantages(policy.advantage, result.groups))
        self._unlearned = [group.pool for group in result.groups]
        self._pending_metrics = self._figures(result) | chosen
        for listener in listeners(trainer):
            listener.on_rollout_end(trainer, policy, result)
        return result.groups, result.policy_version

    def _learn(self, metrics: Mapping[str, float]) -> None:
        """Let estimator, sampler and selection learn from a step, as its last update is done and not before.

        A run that is stopped within a step draws that step anew when it goes on: with the same prompts and beliefs, and
        so that its responses count once.
        """
        pools, self._unlearned = self._unlearned, []
        self.estimator.update(pools)
        self.sampler.observe(pools)
        if isinstance(self.selection, BatchSelection):
            self.selection.observe(metrics)

    def _chosen_figures(self, data: RolloutDataModule, prompts: Sequence[Prompt]) -> dict[str, float]:
        """What was believed of the step's prompts before it."""
        if not isinstance(self.estimator, RememberingEstimator):
            return {}
        return curriculum_figures(data.curriculum, self.estimator.recall(prompts))

    def _figures(self, result: RolloutResult) -> dict[str, float]:
        self._metrics.reset()
        self._metrics.update(result)
        self._calibration.reset()
        self._calibration.update([group.pool for group in result.groups])
        computed = self._metrics.compute() | self._calibration.compute()
        figures = {name: float(value) for name, value in computed.items()}
        return {**figures, "rollout/engine_restarts": float(self.service.num_restarts)}


def _with_advantages(advantage: RolloutAdvantage, groups: Sequence[ResponseGroup]) -> tuple[ResponseGroup, ...]:
    """Write the advantages of a whole rollout into its groups."""
    return tuple(
        replace(
            group, kept=tuple(replace(kept, advantage=value) for kept, value in zip(group.kept, values, strict=True))
        )
        for group, values in zip(groups, advantage.assign(groups), strict=True)
    )


def _parts(trainer: Trainer, pl_module: LightningModule) -> tuple[PolicyModule, RolloutDataModule]:
    data = getattr(trainer, "datamodule", None)
    if not isinstance(pl_module, PolicyModule) or not isinstance(data, RolloutDataModule):
        raise TypeError(
            f"AdaptiveSampling works with PolicyModule and RolloutDataModule; "
            f"got {type(pl_module).__name__} and {type(data).__name__}"
        )
    return pl_module, data
