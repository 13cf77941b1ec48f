"""Drives the engine: one adaptive rollout per step, from the policy that the next update will change."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from ada_lightning.analysis.metrics.calibration import EstimatorCalibration
from ada_lightning.analysis.metrics.curriculum import curriculum_figures
from ada_lightning.analysis.metrics.effective_weight import effective_weights
from ada_lightning.analysis.metrics.rollout import RolloutMetrics
from ada_lightning.core.checks import refuse
from ada_lightning.core.method import Method
from ada_lightning.core.prompt_queue import StepPrompts
from ada_lightning.core.protocols import PassRateEstimator, Sampler, Trait
from ada_lightning.core.records import Belief, Prompt, ResponseGroup, ResponsePool
from ada_lightning.core.step_records import RolloutResult
from ada_lightning.core.top_up import refill_figures
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.rewards.pool import RewardPool
from ada_lightning.rollout.service import RolloutService
from ada_lightning.run.determinism import seed_generators
from ada_lightning.run.stopping import RunStoppedError
from ada_lightning.training.batch import TrainingBatch
from ada_lightning.training.models.served import read_model
from ada_lightning.training.policy import PolicyModule
from ada_lightning.training.streamed import StreamedGradients

from .budget import share_spent
from .rollout_listener import listeners
from .run_parts import run_parts
from .steps_ahead import StepsAhead


class AdaptiveSampling(Callback):
    """Connects sampler, engine, graders and selection to the data module's stream.

    Args:
        method: who gets more samples, who stops, what is kept, what is learned; its curriculum is the data module's.
        service: the engine, shared with evaluation.
        grader: reward workers, shared with evaluation.
        tokenizer: of the policy; None reads it, and with it what ends a response, from the policy's reference.
        eos_token_ids: tokens that end a response.
        run_dir: engine log lines go to ``engine.log`` in it; None is the trainer's ``default_root_dir``.
        max_logprob_gap: warn where engine and trainer differ by more than this mean of nats per token, as they do when
            weights do not arrive. Bfloat16 alone gives about 0.025.
        stop_logprob_gap: stop the run where they differ by more than this mean: such responses are not the policy's,
            and what is learned from them is noise. ``inf`` only warns.

    Raises:
        ValueError: a gap is not positive, or the run would stop before it warns.
    """

    def __init__(
        self,
        method: Method,
        *,
        service: RolloutService,
        grader: RewardPool,
        tokenizer: Any = None,
        eos_token_ids: Sequence[int] = (),
        run_dir: str | Path | None = None,
        max_logprob_gap: float = 0.3,
        stop_logprob_gap: float = 1.0,
    ) -> None:
        if not 0 < max_logprob_gap <= stop_logprob_gap:
            raise ValueError(
                "callbacks.adaptive_sampling needs 0 < max_logprob_gap <= stop_logprob_gap (.inf: never stop); "
                f"got {max_logprob_gap}, {stop_logprob_gap}"
            )
        self.service = service
        self.grader = grader
        self.method = method
        self.tokenizer = tokenizer
        self.eos_token_ids = tuple(eos_token_ids)
        self.run_dir = None if run_dir is None else Path(run_dir)
        self.max_logprob_gap = max_logprob_gap
        self.stop_logprob_gap = stop_logprob_gap
        self._ahead = StepsAhead(self.method, service) if service.max_staleness else None
        self._streamed: StreamedGradients | None = None
        self._metrics = RolloutMetrics()
        self._pending_metrics: dict[str, float] = {}
        self._step_metrics: dict[str, float] = {}
        self._unlearned: list[ResponsePool] = []
        self._has_warned_of_threshold = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Connect before the data loader is asked for: Lightning fetches a batch before ``on_train_batch_start``.

        What nobody made ready is made so: the tokenizer, and in the leading process the prompts.

        Raises:
            ValueError: a file of the model is damaged, or no training prompt is left.
        """
        policy, data = run_parts(trainer, pl_module)
        if self.tokenizer is None:
            model = read_model(policy.reference_path)
            self.tokenizer, self.eos_token_ids = model.tokenizer, tuple(self.eos_token_ids or model.eos_token_ids)
        if policy.ranks.is_leader and not data.train_prompts:
            data.read(self.tokenizer, self.grader)
            self.method.check_prompts(data.train_prompts)
        policy.max_tokens_at_once = data.max_tokens_per_microbatch
        remembering = self._remembering
        data.connect(
            collect=lambda step, prompts: self._collect(trainer, policy, data, step, prompts),
            score_old=policy.score_old,
            keep_groups_without_signal=policy.needs_groups_without_signal,
            recall=partial(_recalled, policy, remembering) if remembering is not None else None,
            ranks=policy.ranks,
            share_spent=partial(share_spent, trainer),
            max_staleness=self.service.max_staleness,
        )
        if self.service.stream_gradients:
            self._check_streaming(trainer, data)
            self._streamed = StreamedGradients(
                policy, self._group, data.pack_part, max_tokens=data.max_tokens_per_microbatch
            )
        data.streamed = self._streamed
        self.method.curriculum = data.curriculum
        self.method.sampler.connect(policy)
        self.method.estimator.connect(policy)

    def _check_streaming(self, trainer: Trainer, data: RolloutDataModule) -> None:
        """Refuse what would train on wrong gradients. Of a configuration all is said, before a model loads."""
        sampler = type(self.method.sampler)
        refuse(
            data.updates_per_rollout > 1 and "rollout.stream_gradients needs one update per rollout",
            trainer.world_size > 1 and "rollout.stream_gradients needs one training process",
            self.method.refill.is_on and "rollout.stream_gradients does not go with refill",
            sampler.connect is not Sampler.connect
            and f"rollout.stream_gradients does not go with {sampler.__name__}, which reads the policy meanwhile",
        )

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start graders and engine, in the leading process."""
        policy, _ = run_parts(trainer, pl_module)
        folder = self.run_dir or Path(trainer.default_root_dir)
        policy.ranks.lead(lambda: self._start(policy, folder))

    def _start(self, policy: PolicyModule, folder: Path) -> None:
        with policy.clock.phase("start"):
            self.grader.start()
            self.service.open(
                model_path=policy.reference_path,  # outlives every checkpoint; the first sync brings the weights
                tokenizer=self.tokenizer,
                eos_token_ids=self.eos_token_ids,
                grader=self.grader,
                log_file=folder / "engine.log",
            )
        policy.sends_adapters = self.service.engine.takes_adapters

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: TrainingBatch, batch_idx: int
    ) -> None:
        """Let an update draw the same random numbers whenever it is made."""
        policy, _ = run_parts(trainer, pl_module)
        seed_generators(seed=self.service.settings.seed, part="update", index=policy.policy_version)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: TrainingBatch, batch_idx: int
    ) -> None:
        """Log the update, the rollout with the first update made of it, and the step's seconds with the last.

        Straight to the loggers: Lightning's ``log`` repeats a figure in every later step that does not log it anew.
        """
        policy, data = run_parts(trainer, pl_module)
        data.num_updates_done = policy.policy_version
        policy.ranks.lead(lambda: self._log_update(trainer, policy, data, batch))

    def _log_update(
        self, trainer: Trainer, policy: PolicyModule, data: RolloutDataModule, batch: TrainingBatch
    ) -> None:
        is_last = batch.update_index == data.updates_per_rollout - 1
        metrics, self._pending_metrics = self._pending_metrics, {}
        if is_last:
            metrics |= {f"time/{phase}_s": seconds for phase, seconds in policy.clock.step_seconds().items()}
            policy.clock.end_step()
        metrics |= policy.update_metrics
        self._step_metrics |= metrics
        if is_last:
            policy.step_metrics = dict(self._step_metrics)
            self._learn(policy, data)
        policy.log_dict(metrics, logger=False)  # for callbacks that read trainer.callback_metrics
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=policy.policy_version - 1)
        self._check_gap(metrics)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Give the engine to the final evaluation: a run that ends before its last step has begun further ones."""
        self.service.stop_started()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Stop engine and graders: Lightning tears callbacks down at a normal end alone."""
        self.teardown(trainer, pl_module, "fit")

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Stop engine and graders."""
        self.service.close()
        self.grader.close()

    def state_dict(self) -> dict[str, Any]:
        """What sampler and estimator remember of the steps that are done."""
        state = self.method.state_dict()
        return state if self._ahead is None else state | {"ahead": self._ahead.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`.

        Raises:
            ValueError: a part of another class remembers something that its successor cannot read, or the run had
                another ``rollout.max_staleness``.
        """
        ahead = state_dict.get("ahead", {})
        now, earlier = self.service.max_staleness, ahead.get("max_staleness", 0)
        if now != earlier:
            raise ValueError(
                f"rollout.max_staleness = {now}, but this run has prepared its steps with {earlier}; continue with "
                f"rollout.max_staleness={earlier} or start a new run"
            )
        self.method.load_state_dict(state_dict)
        if self._ahead is not None:
            self._ahead.load_state_dict(ahead)

    def _collect(
        self, trainer: Trainer, policy: PolicyModule, data: RolloutDataModule, step: int, prompts: Sequence[Prompt]
    ) -> tuple[Sequence[ResponseGroup], int]:
        if self._streamed is not None:
            self._streamed.begin(step, lag=data.lag(step))
        if self._ahead is not None:
            result, figures = self._ahead.rollout(policy, data, step, self._streamed)
            training = result.groups
        elif self.method.refill.is_on:
            result, training, figures = self._sample_filled_up(policy, data, step)
        else:
            with policy.clock.phase("estimate"):
                beliefs = self.method.estimator.predict(prompts, policy.represent)
            figures = self._chosen_figures(policy, data, prompts)
            result = self._sample(policy, step, prompts, beliefs=beliefs)
            training = result.groups
        numbers = policy.advantages(training)
        training = tuple(group.with_advantages(row) for group, row in zip(training, numbers, strict=True))
        result = _with_groups(result, training)
        self._warn_of_threshold(policy, training)
        self._unlearned = [group.pool for group in result.groups]
        self._step_metrics = {}
        self._pending_metrics = self._figures(result) | figures | effective_weights(training)
        for listener in listeners(trainer):
            self._pending_metrics |= listener.rollout_figures(result)
            listener.on_rollout_end(trainer, policy, result)
        return training, result.policy_version

    def _sample(self, policy: PolicyModule, step: int, prompts: Sequence[Prompt], **options: Any) -> RolloutResult:
        seed_generators(seed=self.service.settings.seed, part="rollout", index=step)
        begin = partial(self.method.begin, prompts, step=step, **options)
        weights: dict[str, Any] = {"weights": policy.engine_weights, "policy_version": policy.policy_version}
        if self._streamed is None:
            sample = partial(self.service.sample, begin, **weights, stage="train")
            return sample(clock=policy.clock, interrupt_check=policy.interrupt_check).result()
        start = self._streamed.following(step, begin)
        sampled = self.service.start(start, **weights, ended=self._streamed.note)
        return sampled(clock=policy.clock, interrupt_check=self._streamed.check_and_compute).result()

    def _group(self, pool: ResponsePool) -> ResponseGroup:
        """Select from a pool that is complete before its step is."""
        (kept,) = self.method.selection.select_all([pool])
        return ResponseGroup(pool, kept)

    def _sample_filled_up(
        self, policy: PolicyModule, data: RolloutDataModule, step: int
    ) -> tuple[RolloutResult, tuple[ResponseGroup, ...], dict[str, float]]:
        """Sample until enough groups have a signal: the result, what trains of it, and figures."""
        method, num_groups = self.method, data.prompts_per_step
        source = StepPrompts(lambda number: data.first_prompts(step, number), method.estimator, policy.represent)
        with policy.clock.phase("estimate"):
            first = source.draw(0, method.refill.first_wave(num_groups))
        prompts, beliefs = [prompt for prompt, _ in first], [belief for _, belief in first]
        figures = self._chosen_figures(policy, data, prompts)
        result = self._sample(policy, step, prompts, beliefs=beliefs, num_groups=num_groups, draw=source.draw)
        division = result.division
        assert division is not None
        num_drawn = result.stats.num_prompts + result.stats.num_skipped_prompts
        data.note_used(step, num_drawn)
        figures |= refill_figures(division, num_groups=num_groups, num_drawn=num_drawn)
        slots = {pool.slot for pool in division.trained}
        training = tuple(group for group in result.groups if group.pool.slot in slots)
        return result, training, figures

    def _learn(self, policy: PolicyModule, data: RolloutDataModule) -> None:
        """Let all that learns do so from a step, as its last update is done and not before.

        A run that is stopped within a step draws that step anew when it goes on: with the same prompts and beliefs, and
        so that its responses count once.
        """
        pools, self._unlearned = self._unlearned, []
        step = policy.policy_version // data.updates_per_rollout - 1
        if self._ahead is not None:
            self._ahead.remind(step)
        self.method.learn(pools, self._step_metrics, timed=policy.clock.phase)  # logged with the next step
        if self._ahead is not None:
            self._ahead.note_learned(step, updates_per_rollout=data.updates_per_rollout)

    def _check_gap(self, metrics: Mapping[str, float]) -> None:
        """Compare how probable engine and trainer found the same tokens; before a checkpoint is written of the update.

        Raises:
            RunStoppedError: too differently.
        """
        # Of responses of an older policy the gap is mostly drift; there the canary tells whether weights arrived.
        name = "sync/logprob_gap" if self._ahead is None else "sync/canary_gap"
        gap = metrics.get(name, 0.0)
        if gap <= self.max_logprob_gap:
            return
        text = (
            f"the engine's log-probabilities differ from the trainer's by {gap:.3f} nat per token (mean; the largest "
            f"difference of a token is {metrics.get(f'{name}_max', gap):.3f})"
        )
        if gap > self.stop_logprob_gap:
            raise RunStoppedError(
                f"{text}, above callbacks.adaptive_sampling.stop_logprob_gap = {self.stop_logprob_gap}: the weights in "
                "the engine are not the trainer's, or one of the two computes something else. Compare "
                "rollout.engine.dtype=float32 trainer.precision=32-true; this update is in no checkpoint"
            )
        warnings.warn(
            f"{text}, above max_logprob_gap = {self.max_logprob_gap}: are the weights in the engine the trainer's?",
            RuntimeWarning,
            stacklevel=3,
        )

    def _warn_of_threshold(self, policy: PolicyModule, groups: Sequence[ResponseGroup]) -> None:
        """Say once that amounts of rewards are lost where the advantage counts positives."""
        if self._has_warned_of_threshold or Trait.NEEDS_BOTH_CLASSES not in policy.advantage.traits:
            return
        rewards = [response.reward for group in groups for response in group.pool.responses]
        threshold = self.service.settings.positive_threshold
        above = {reward for reward in rewards if reward > threshold}
        if len(above) > 1 or len(set(rewards) - above) > 1:
            self._has_warned_of_threshold = True
            num_above = sum(reward > threshold for reward in rewards)
            warnings.warn(
                f"{type(policy.advantage).__name__} learns from which rewards are above rollout.positive_threshold = "
                f"{threshold:g}, not from their amounts: of {len(rewards)} rewards, from {min(rewards):g} to "
                f"{max(rewards):g}, {num_above} are"
                f"{'; nothing can be learned of such a step' if num_above in (0, len(rewards)) else ''}. Set it to "
                "what tells right from wrong, or train on the amounts: advantage=weighted_leave_one_out "
                "selection=stratified sampler=spread",
                RuntimeWarning,
                stacklevel=2,
            )

    @property
    def _remembering(self) -> PassRateEstimator | None:
        estimator = self.method.estimator
        return estimator if estimator.remembers_prompts else None

    def _chosen_figures(
        self, policy: PolicyModule, data: RolloutDataModule, prompts: Sequence[Prompt]
    ) -> dict[str, float]:
        """What was believed of the step's prompts before it."""
        remembering = self._remembering
        if remembering is None:
            return {}
        return curriculum_figures(data.curriculum, _recalled(policy, remembering, prompts))

    def _figures(self, result: RolloutResult) -> dict[str, float]:
        calibration = EstimatorCalibration(sync_on_compute=False)  # one process rolls out
        calibration.update([group.pool for group in result.groups])
        figures = {name: float(value) for name, value in calibration.compute().items()}
        if self._streamed is not None:
            figures["rollout/latency_s"] = result.stats.seconds
        return {**self._metrics(result), **figures, "rollout/engine_restarts": float(self.service.engine.num_restarts)}


def _with_groups(result: RolloutResult, changed: Sequence[ResponseGroup]) -> RolloutResult:
    """Put groups in the place of those of the same pools."""
    by_pool = {id(group.pool): group for group in changed}
    return replace(result, groups=tuple(by_pool.get(id(group.pool), group) for group in result.groups))


def _recalled(policy: PolicyModule, estimator: PassRateEstimator, prompts: Sequence[Prompt]) -> Sequence[Belief]:
    """Ask what is remembered; the seconds count."""
    with policy.clock.phase("estimate"):
        return estimator.recall(prompts)
