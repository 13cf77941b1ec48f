"""Held-out evaluation before, during and after training, through the engine that training uses."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

from lightning.pytorch import LightningModule, Trainer

from ada_lightning.analysis.metrics.heldout import heldout_metrics
from ada_lightning.core.records import Prompt, SamplingSettings
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import EvaluationResult, RolloutResult
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.drafts import LastResponses
from ada_lightning.rollout.service import RolloutService
from ada_lightning.training.batch import TrainingBatch
from ada_lightning.training.policy import PolicyModule

from .rollout_listener import RolloutListener, listeners
from .run_parts import run_parts
from .weight_average import average_of


class Evaluation(RolloutListener):
    """avg@k, pass@k, maj@k, length and truncation on held-out prompts, over all of them and per task.

    Where the run keeps an average of its weights, that is measured on the same prompts after them (``eval_average/``).
    Every evaluation of a run draws with the same seeds, so that two policies are compared on the same random numbers.
    Where the engine takes drafts, it gets the responses of the last evaluation, which makes this one faster and changes
    nothing else. They are not in checkpoints: the first evaluation after a resume goes without.

    Args:
        service: the engine, shared with training.
        num_samples: responses per prompt, the k of avg@k.
        num_prompts: the first so many held-out prompts.
        sampling: how responses are drawn, independent of training; None: up to as many tokens as in training, by the
            policy's own probabilities.
        every_n_steps: rollout steps between two evaluations during training; 0 evaluates only before and after.
        every_n_tokens: evaluate also after the step with which so many tokens have been generated for training since
            the last evaluation, which puts the points of a learning curve at equal costs; ``inf``: not by tokens.

    Raises:
        ValueError: a size is out of range.
    """

    def __init__(
        self,
        *,
        service: RolloutService,
        num_samples: int = 4,
        num_prompts: int = 64,
        sampling: SamplingSettings | None = None,
        every_n_steps: int = 0,
        every_n_tokens: float = math.inf,
    ) -> None:
        if num_samples < 1 or num_prompts < 1 or every_n_steps < 0:
            raise ValueError(
                "callbacks.evaluation needs num_samples >= 1, num_prompts >= 1, every_n_steps >= 0; "
                f"got {num_samples}, {num_prompts}, {every_n_steps}"
            )
        if not every_n_tokens > 0:
            raise ValueError(
                f"callbacks.evaluation.every_n_tokens must be above 0 (inf switches it off); got {every_n_tokens}"
            )
        self.service = service
        self.num_samples = num_samples
        self.num_prompts = num_prompts
        self.sampling = sampling or SamplingSettings(max_new_tokens=service.sampling.max_new_tokens)
        self.every_n_steps = every_n_steps
        self.every_n_tokens = every_n_tokens
        self.last_average: float | None = None
        """avg@k of the last evaluation."""
        self._evaluated_version = -1
        self._num_tokens = 0
        self._num_unfinished_tokens = 0
        self._rollout_version = -1
        """Policy version when the unfinished tokens were drawn: a later one has been updated with them."""
        self._policy: PolicyModule | None = None
        self._last, self._last_averaged = LastResponses(), LastResponses()
        """Of the policy, and of the average of its weights."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Remember whose version says what is finished."""
        self._policy, _ = run_parts(trainer, pl_module)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measure the untrained policy. A resumed run has that figure, but may owe one that was interrupted."""
        policy, data = run_parts(trainer, pl_module)
        is_wanted = policy.policy_version == 0 or self._is_due(policy, data)
        policy.ranks.lead(lambda: self._evaluate(trainer, policy, is_wanted=is_wanted))

    def on_rollout_end(self, trainer: Trainer, pl_module: LightningModule, result: RolloutResult) -> None:
        """Note what was drawn; it counts with the first update made of it."""
        version = run_parts(trainer, pl_module)[0].policy_version  # what sampled may be an older one
        self._num_unfinished_tokens, self._rollout_version = result.stats.drawn_tokens, version

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: TrainingBatch, batch_idx: int
    ) -> None:
        """Measure when it is due, except where the final evaluation follows anyway."""
        policy, data = run_parts(trainer, pl_module)
        self._num_tokens += self._num_unfinished_tokens
        self._num_unfinished_tokens = 0
        is_due = self._is_due(policy, data) and not trainer.should_stop
        policy.ranks.lead(lambda: self._evaluate(trainer, policy, is_wanted=is_due))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measure the trained policy."""
        policy, _ = run_parts(trainer, pl_module)
        policy.ranks.lead(lambda: self._evaluate(trainer, policy, is_final=True))

    def on_nothing_left(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measure the trained policy of a run that was killed after its last update, unless that was done."""
        policy, _ = run_parts(trainer, pl_module)
        if policy.policy_version != self._evaluated_version:
            policy.ranks.lead(lambda: self._evaluate(trainer, policy, is_final=True))

    def state_dict(self) -> dict[str, Any]:
        """What has been measured, and the tokens since then, those of a step that a checkpoint ends included."""
        has_updated = self._policy is not None and self._policy.policy_version > self._rollout_version
        num_tokens = self._num_tokens + (self._num_unfinished_tokens if has_updated else 0)
        return {"evaluated_version": self._evaluated_version, "tokens_since": num_tokens}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._evaluated_version = int(state_dict["evaluated_version"])
        self._num_tokens = int(state_dict["tokens_since"])

    def _is_due(self, policy: PolicyModule, data: RolloutDataModule) -> bool:
        step, update = divmod(policy.policy_version, data.updates_per_rollout)
        is_due = self._num_tokens >= self.every_n_tokens or (self.every_n_steps > 0 and step % self.every_n_steps == 0)
        return is_due and update == 0 and step < data.num_steps and policy.policy_version != self._evaluated_version

    def _evaluate(
        self, trainer: Trainer, policy: PolicyModule, *, is_wanted: bool = True, is_final: bool = False
    ) -> None:
        if not is_wanted:
            return
        _, data = run_parts(trainer, policy)
        prompts = data.heldout_prompts[: self.num_prompts]
        if len(prompts) < self.num_prompts and policy.policy_version == 0:
            warnings.warn(
                f"callbacks.evaluation.num_prompts = {self.num_prompts}, but only {len(prompts)} prompts are held out",
                stacklevel=2,
            )
        if not prompts:
            self._evaluated_version, self._num_tokens = policy.policy_version, 0
            return
        result = self._sample(prompts, policy, self._last, version=policy.policy_version)
        metrics = heldout_metrics(result.groups, num_samples=self.num_samples)
        if (average := average_of(trainer)) is not None:
            with average.as_weights():  # a version of its own, so that the engine has the policy's weights loaded anew
                averaged = self._sample(prompts, policy, self._last_averaged, version=-2 - policy.policy_version)
            figures = heldout_metrics(averaged.groups, num_samples=self.num_samples)
            metrics |= {f"eval_average/{name.removeprefix('eval/')}": value for name, value in figures.items()}
        self._evaluated_version, self._num_tokens = policy.policy_version, 0  # one that is interrupted is still owed
        self.last_average = metrics[f"eval/avg_at_{self.num_samples}"]
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=policy.policy_version)
        evaluation = EvaluationResult(
            policy_version=policy.policy_version,
            step=policy.policy_version // data.updates_per_rollout,
            groups=result.groups,
            metrics=metrics,
            is_final=is_final,
        )
        for listener in listeners(trainer):
            listener.on_evaluation_end(trainer, policy, evaluation)

    def _sample(
        self, prompts: Sequence[Prompt], policy: PolicyModule, last: LastResponses, *, version: int
    ) -> RolloutResult:
        uniform = UniformSampler(group_size=self.num_samples)
        takes_drafts = self.service.takes_drafts
        num_at_once = min(self.service.engine.max_num_seqs, len(prompts) * self.num_samples) if takes_drafts else 0
        step = self.service.sample(
            partial(Step, prompts, sampler=uniform, selection=AllSelection()),
            weights=self.service.engine.weights_of(policy),
            policy_version=version,
            sampling=self.sampling,
            stage="eval",
            clock=policy.clock,
            interrupt_check=policy.interrupt_check,
            drafts=last.drafts(num_at_once) if takes_drafts else None,
        )
        result = step.result()
        if takes_drafts:
            last.note(result.groups)
        return result
