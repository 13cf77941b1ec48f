"""The LightningModule: the policy, its advantages, its loss, and one optimiser step per batch.

Optimisation is manual. A batch is a varying number of token-budget microbatches whose losses are already divided by
global counts; automatic optimisation would divide once more by a constant number of accumulation steps.

Batches come from ``rollout/loop.py``. Read next: ``training/losses/ratios.py``, the loss of a token.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from ada_lightning.core.checks import refuse
from ada_lightning.core.protocols import Advantage
from ada_lightning.core.records import ResponseGroup
from ada_lightning.parallel.gradients import add_up, clip_to_norm, whole_weights
from ada_lightning.parallel.sharding import whole_model
from ada_lightning.run.machine import give_back_freed_memory
from ada_lightning.training.batch import Microbatch, TrainingBatch
from ada_lightning.training.losses import PolicyLoss, TokenTerms
from ada_lightning.training.models.trained import AllParameters, TrainedParameters, compile_layers
from ada_lightning.training.readable_policy import ReadablePolicy, T
from ada_lightning.training.token_masks import HeadUpdate, TokenMask
from ada_lightning.training.updates import (
    ConstantSchedule,
    UpdateGuard,
    UpdateOutOfMemoryError,
    halved,
    is_out_of_memory,
)
from ada_lightning.training.updates.sums import Drift, GradientSum, StreamedPart, add_sums, update_figures


class PolicyModule(ReadablePolicy):
    """A causal language model and the rules that improve it.

    Args:
        model_path: folder of the Hugging Face checkpoint to train.
        advantage: how much better than expected each response was, weight included.
        loss: the policy loss.
        reference_path: folder of the frozen reference, used only if the loss has a KL term; None: ``model_path``.
        optimizer: completed with the parameters, as ``_partial_: true`` gives it; None: AdamW at a rate of 1e-5, which
            suits models of about 0.1 billion parameters.
        warmup_steps: optimiser steps over which the learning rate rises linearly.
        schedule: factor of the learning rate, given the share of the run that is done, in [0, 1].
        max_grad_norm: gradients are clipped to this norm.
        temperature: of the training rollouts; log-probabilities are those of the tempered distribution.
        logprob_chunk_size: tokens whose logits are held at once, in the type of the matrix products.
        gradient_checkpointing: recompute activations in the backward pass: less memory, about a third more time.
        compile: compile the model's layers (``torch.compile``): slow first updates, then a little faster if at all.
        token_masks: which tokens train; their masks multiply.
        parameters: which parameters train.
        checkpoint_path: folder of the checkpoint to continue from; None for a fresh start.
        update_guard: which gradients may change the weights; None is
            :class:`~ada_lightning.training.updates.UpdateGuard` with its defaults.

    Raises:
        ValueError: a setting is out of range; all in one message.
    """

    def __init__(
        self,
        model_path: Path,
        *,
        advantage: Advantage,
        loss: PolicyLoss,
        reference_path: Path | None = None,
        optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None,
        warmup_steps: int = 0,
        schedule: Callable[[float], float] = ConstantSchedule(),  # noqa: B008 - has no state
        max_grad_norm: float = 1.0,
        temperature: float = 1.0,
        logprob_chunk_size: int = 1024,
        gradient_checkpointing: bool = False,
        compile: bool = False,
        token_masks: Sequence[TokenMask] = (),
        parameters: TrainedParameters = AllParameters(),  # noqa: B008 - has no state
        checkpoint_path: Path | None = None,
        update_guard: UpdateGuard | None = None,
    ) -> None:
        super().__init__(temperature=temperature, logprob_chunk_size=logprob_chunk_size, parameters=parameters)
        refuse(
            warmup_steps < 0 and f"policy.warmup_steps must not be negative; got {warmup_steps}",
            max_grad_norm <= 0
            and f"policy.max_grad_norm must be positive (inf switches clipping off); got {max_grad_norm}",
            temperature <= 0 and f"rollout.sampling.temperature must be positive for training; got {temperature}",
            logprob_chunk_size < 1 and f"policy.logprob_chunk_size must be at least 1; got {logprob_chunk_size}",
        )
        self.automatic_optimization = False
        self.strict_loading = False  # weights live in the checkpoint's Hugging Face folder, not in its trainer state
        self.model_path = model_path
        self.reference_path = reference_path or model_path
        self.advantage = advantage
        self.loss = loss
        self.optimizer_factory = optimizer or partial(AdamW, lr=1e-5, weight_decay=0.0, fused=True)
        self.warmup_steps = warmup_steps
        self.schedule = schedule
        self.max_grad_norm = max_grad_norm
        self.gradient_checkpointing = gradient_checkpointing
        self.compile_layers = compile
        self.token_masks = tuple(token_masks)
        self.checkpoint_path = checkpoint_path
        self.update_guard = update_guard or UpdateGuard()
        self.policy_version = 0
        """Batches this policy was updated with; a skipped update counts, so versions and batches stay aligned."""
        self.num_skipped_updates = 0
        self.num_memory_retries = 0
        self.update_metrics: dict[str, float] = {}
        """Figures of the last update, keyed ``train/name``; whoever logs steps takes them from here."""
        self._drift = Drift()

    def setup(self, stage: str) -> None:
        """Say what this process does where another one leads."""
        self.ranks.on("represent", self._represent)
        self.ranks.on("rehearse", partial(self._in_halves_if_needed, self._rehearse))
        self.ranks.on("weights", self._follow_weights)
        self.advantage.connect(self.log_ratios, self.last_states)

    def configure_model(self) -> None:
        """Load the policy, and the reference where loss or advantage need one. Master weights are float32.

        Raises:
            ValueError: this architecture's packed responses cannot be kept apart.
        """
        if hasattr(self, "model"):
            return
        self.model: Any = self._load(self.model_path, self._prepare_policy)
        if (self.loss.needs_reference or self.advantage.needs_reference) and not self.trained.has_reference:
            self.reference: Any = self._load(self.reference_path, self._prepare_reference)
        self.loss.build(self.model.get_output_embeddings().weight.shape[1])

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """Complete the optimiser with what trains, the loss's own parameters too if it has any, and add the warm-up."""
        parameters: Iterable[Any] = (
            self.sharding.parameter_groups(self.model) if self.sharding else self.trained.trainable(self.model)
        )
        if self.loss.has_parameters:
            own = {"params": list(self.loss.parameters()), "lr": self.loss.learning_rate}
            parameters = [{"params": list(parameters)}, own]
        optimizer = self.optimizer_factory(parameters)
        self._optimizer_settings = [
            {name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups
        ]
        warmup = self.warmup_steps
        scheduler = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / (warmup + 1)))
        return {"optimizer": optimizer, "lr_scheduler": scheduler}

    def apply_optimizer_settings(self) -> None:
        """Give a restored optimiser the configured settings again: restoring brought back the earlier ones."""
        self._scheduler.base_lrs = [settings["lr"] for settings in self._optimizer_settings]
        for group, settings in zip(self.trainer.optimizers[0].param_groups, self._optimizer_settings, strict=True):
            group.update(settings)
            group["initial_lr"] = settings["lr"]

    @property
    def _scheduler(self) -> LambdaLR:
        scheduler = self.lr_schedulers()
        assert isinstance(scheduler, LambdaLR)
        return scheduler

    def _set_learning_rate(self, share_done: float) -> float:
        """Set what warm-up and schedule leave of the configured rate; return that of the policy's weights."""
        scheduler, groups = self._scheduler, self.trainer.optimizers[0].param_groups
        for group, rate, warmup in zip(groups, scheduler.base_lrs, scheduler.lr_lambdas, strict=True):
            group["lr"] = rate * warmup(scheduler.last_epoch) * self.schedule(share_done)
        return float(groups[0]["lr"])

    def on_fit_start(self) -> None:
        """Check the architecture: :meth:`check_logits`."""
        self.check_logits()

    def training_step(self, batch: TrainingBatch, batch_idx: int) -> None:
        """One optimiser step.

        Raises:
            RuntimeError: the rollout does not come from the policy version that the batch says it does.
        """
        self.check_version(batch)
        optimizer = self.optimizers()
        lr = self._set_learning_rate(batch.share_done)
        self._begin_update(batch)
        with self.clock.phase("update"):
            total_loss, totals = self._in_halves_if_needed(self._accumulate, batch)
            self._finish_gradients()
            grad_norm = clip_to_norm(self.trained.trainable(self.model), self.max_grad_norm)
            loss_grad_norm = self._clip_loss_gradient()
            self._update(optimizer, total_loss, grad_norm + loss_grad_norm, is_empty=not batch.all_microbatches)
        self._note_update(batch, total_loss, grad_norm, totals, lr=lr)
        if self.loss.has_parameters:
            self.update_metrics["train/loss_grad_norm"] = float(loss_grad_norm)

    def check_version(self, batch: TrainingBatch) -> None:
        """Compare which policy sampled a batch with which should have: exactly, and not at most so old.

        Raises:
            RuntimeError: it was another one.
        """
        expected_version = self.policy_version - batch.updates_since_rollout - (batch.lag or 0)
        if batch.policy_version != expected_version:
            raise RuntimeError(
                f"stale rollout: sampled by policy version {batch.policy_version}, and after "
                f"{batch.updates_since_rollout} updates with it the policy has version {self.policy_version}; "
                f"expected a rollout of version {expected_version}"
            )

    def _in_halves_if_needed(self, compute: Callable[[TrainingBatch], T], batch: TrainingBatch) -> T:
        """Compute the gradients of a batch; once more from their start, in halves, where memory does not suffice.

        Raises:
            UpdateOutOfMemoryError: halves do not fit either, or ranks would take different ways.
        """
        try:
            return compute(batch)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            failed = UpdateOutOfMemoryError(batch, error)
            # One rank alone must not compute other parts than the others, which wait for it in their collectives.
            if self.trainer.world_size > 1:
                raise failed from error
        # Outside of the handler: its traceback holds the activations.
        self.forget_update()
        whole = batch.all_microbatches
        parts = tuple(part for microbatch in whole for part in halved(microbatch))
        if len(parts) == len(whole):
            raise failed
        self.num_memory_retries += 1
        warnings.warn(
            f"an update ran out of memory ({failed.what}) and is repeated in {len(parts)} parts instead of "
            f"{len(whole)}; lower data.max_tokens_per_microbatch to spare the first attempt",
            RuntimeWarning,
            stacklevel=2,
        )
        halves = replace(batch, microbatches=parts, streamed=None)
        try:
            return compute(halves)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise UpdateOutOfMemoryError(halves, error) from error

    def _accumulate(self, batch: TrainingBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """Add the gradients of every microbatch up, to those that are there; return loss and sums for logging."""
        so_far = GradientSum()
        if isinstance(streamed := batch.streamed, StreamedPart):
            factor, so_far = streamed.factor(self.loss.reduction, batch.counts), streamed.sum
            so_far.loss = so_far.loss * factor
            for parameter in (*self.trained.trainable(self.model), *self.loss.parameters()):
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)
        self.add_gradients(batch, so_far)
        return so_far.loss, so_far.totals

    def add_gradients(self, batch: TrainingBatch, so_far: GradientSum) -> None:
        """Add the gradients of a batch's microbatches to those that the parameters have."""
        self._drift = so_far.drift
        for index, microbatch in enumerate(batch):
            self.clock.report(index, len(batch.microbatches))
            loss, sums = self.microbatch_loss(microbatch, batch)
            if microbatch.is_filler:
                loss, sums = 0.0 * loss, {name: torch.zeros_like(value) for name, value in sums.items()}
            self.manual_backward(loss)
            so_far.loss = so_far.loss.to(loss.device) + loss.detach()
            add_sums(so_far.totals, sums)
            self.ranks.check_together(self.interrupt_check)

    def forget_update(self) -> None:
        """Drop what a failed attempt at an update left: gradients, figures, freed memory that is still held."""
        if self.sharding:
            self.sharding.forget_gradients(self.model)
        self.zero_grad(set_to_none=True)  # the loss's own parameters, too
        gc.collect()
        if self.device.type == "cpu":
            give_back_freed_memory()
        else:
            torch.cuda.empty_cache()

    def microbatch_loss(self, microbatch: Microbatch, batch: TrainingBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss of one microbatch, divided by the batch's global counts, and sums for logging."""
        # log pi of every response token, with gradient. Advantages were assigned once for the whole rollout.
        hidden_TH, logprobs_K, entropy_K = self.states_and_logprobs(self.model, microbatch)
        if batch.lag is not None:
            self._drift.add(logprobs_K.detach(), microbatch)
        # With one update per rollout the old policy is this one: each ratio to it is 1, with the gradient of log pi.
        old_logprobs_K = microbatch.old_logprobs_K if batch.has_old_logprobs else logprobs_K.detach()
        # A KL, or a target that is tilted from it, needs the frozen initial policy; nothing else does.
        reference_logprobs_K = old_logprobs_K
        if self.loss.needs_reference:
            reference_logprobs_K = self._reference_logprobs(microbatch)
        terms = TokenTerms(
            logprobs_K=logprobs_K,
            old_logprobs_K=old_logprobs_K,
            sampling_logprobs_K=microbatch.sampling_logprobs_K,
            reference_logprobs_K=reference_logprobs_K,
            entropy_K=entropy_K,
            response_K=microbatch.response_K,
            mask_K=torch.ones_like(microbatch.sampling_logprobs_K),
            hidden_TH=hidden_TH,
        )
        # Masks multiply: of a token's part trains what every one of them leaves.
        kept = {}
        for mask in self.token_masks:
            weight_K = mask(terms, microbatch.advantage_B, microbatch)
            kept[f"{mask.name}_kept"] = (weight_K != 0).sum().to(torch.float32)
            terms = replace(terms, mask_K=terms.mask_K * weight_K)
        # Divided by counts of the whole batch, whatever this part of it holds: losses and gradients of parts add up.
        loss, sums = self.loss(terms, microbatch.advantage_B, microbatch, batch.counts)
        sums |= kept
        if self.token_masks:
            sums["token_mask"] = terms.mask_K.sum()
        sums["tokens"] = microbatch.num_tokens_B.sum()
        return loss, sums

    @torch.no_grad()
    def score_old(self, batch: TrainingBatch) -> TrainingBatch:
        """Fill in the current policy's log-probabilities as the old ones, before the first of several updates."""
        scored = []
        with self.clock.phase("update"), self.trainer.precision_plugin.forward_context():
            for index, microbatch in enumerate(batch):
                self.clock.report(index, len(batch.microbatches))
                on_device = microbatch.to(self.device)
                logprobs_K, _ = self.token_logprobs(self.model, on_device)
                scored.append(replace(microbatch, old_logprobs_K=logprobs_K.to(microbatch.rewards_B.device)))
                self.ranks.check_together(self.interrupt_check)
        return replace(batch, microbatches=tuple(scored))

    def rehearse(self, batch: TrainingBatch) -> None:
        """Compute the gradients of a batch and forget them: what an update costs."""
        self._together("rehearse", partial(self._in_halves_if_needed, self._rehearse), batch)

    def _rehearse(self, batch: TrainingBatch) -> None:
        with self.trainer.precision_plugin.forward_context():
            for microbatch in batch:
                loss, _ = self.microbatch_loss(microbatch.to(self.device), batch)
                loss.backward()
        self.zero_grad(set_to_none=True)
        if self.device.type == "cuda":  # whoever asks what it costs reads a clock next
            torch.cuda.synchronize()

    def _follow_weights(self, _: None) -> None:
        """Gather what the leading process sends to an engine or a file."""
        self._leave_memory_to_engines()
        for _named in whole_weights(self.model):
            if self.device.type == "cuda":  # NCCL's time limit for a gather begins when it is queued
                torch.cuda.current_stream().synchronize()

    def advantages(self, groups: Sequence[ResponseGroup]) -> list[list[float]]:
        """What every kept response of a rollout weighs in the update, group by group in the order of ``group.kept``."""
        return self.advantage.weigh(groups)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Leave the weights out: the checkpoint callback writes them as a Hugging Face folder next to this file."""
        checkpoint["state_dict"] = {}
        checkpoint["policy"] = {
            "policy_version": self.policy_version,
            "num_skipped_updates": self.num_skipped_updates,
            "num_memory_retries": self.num_memory_retries,
            "update_guard": self.update_guard.state_dict(),
            "loss": self.loss.state_dict(),
        }

    def on_load_checkpoint(self, checkpoint: Mapping[str, Any]) -> None:
        """Restore :meth:`on_save_checkpoint`; the weights came with ``model_path``.

        Raises:
            ValueError: the checkpoint is of another loss: one with other parameters, or with and without any.
        """
        self.policy_version = int(checkpoint["policy"]["policy_version"])
        self.num_skipped_updates = int(checkpoint["policy"]["num_skipped_updates"])
        self.num_memory_retries = int(checkpoint["policy"]["num_memory_retries"])
        self.update_guard.load_state_dict(checkpoint["policy"]["update_guard"])
        own, saved = self.loss.state_dict(), checkpoint["policy"]["loss"]
        shapes, saved_shapes = ({name: tuple(x.shape) for name, x in state.items()} for state in (own, saved))
        if shapes != saved_shapes:
            raise ValueError(
                f"loss: {type(self.loss).__name__} has {len(own)} parameters of its own, and this run's checkpoint "
                f"holds {len(saved)}, or of other shapes; continue with the loss that the run was started with"
            )
        self.loss.load_state_dict(saved)

    @property
    def needs_groups_without_signal(self) -> bool:
        """Whether the loss computes groups without any advantage, too."""
        return self.loss.needs_groups_without_signal

    @property
    def reads_hidden(self) -> bool:
        """Whether the loss or a mask reads hidden states."""
        return self.loss.needs_hidden or any(mask.needs_hidden for mask in self.token_masks)

    @property
    def entropy_has_gradient(self) -> bool:
        """Whether the loss needs the gradient of entropies."""
        return self.loss.needs_entropy_gradient

    @property
    def _computes_in_bfloat16(self) -> bool:
        return self._trainer is not None and self._trainer.precision == "bf16-mixed"

    def _prepare_policy(self, model: Any) -> None:
        self.trained.attach(model, self.checkpoint_path)
        if self._computes_in_bfloat16 and not self.sharding:  # shards of one unit have one type, and are cast anyway
            self.trained.hold_frozen(model, torch.bfloat16)
        if self.compile_layers:
            compile_layers(model)
        model.train()
        if self.gradient_checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})

    def _load(self, path: Path, prepare: Callable[[Any], object]) -> Any:
        def check_and_prepare(model: Any) -> None:
            self.attention.check_model(model)
            prepare(model)

        attention = self.attention.implementation
        if self.sharding:
            return self.sharding.load(path, attention=attention, prepare=check_and_prepare)
        model = whole_model(path, attention)
        check_and_prepare(model)
        return model

    def _prepare_reference(self, model: Any) -> None:
        if self.compile_layers:
            compile_layers(model)
        model.eval().requires_grad_(False)

    def _finish_gradients(self) -> None:
        """Make every gradient that of the whole batch: no microbatch follows."""
        if self.sharding:
            self.sharding.finish_gradients(self.model)
        elif self.ranks.num_replicas > 1:
            add_up(self.trained.trainable(self.model))
            add_up(self.loss.parameters())

    def _begin_update(self, batch: TrainingBatch) -> None:
        """Tell the masks that look ahead what is known of this update."""
        update = HeadUpdate(
            head=self.model.get_output_embeddings(),
            optimizer=self.trainer.optimizers[0],
            temperature=self.temperature,
            reduction=self.loss.reduction,
            counts=batch.counts,
        )
        for mask in self.token_masks:
            mask.begin_update(update)

    def _clip_loss_gradient(self) -> Tensor:
        """Clip the gradient of the loss's own parameters apart from the policy's; 0 where it has none."""
        if not self.loss.has_parameters:
            return torch.zeros((), device=self.device)
        return nn.utils.clip_grad_norm_(self.loss.parameters(), self.max_grad_norm)

    def _update(self, optimizer: Any, loss: Tensor, grad_norm: Tensor, *, is_empty: bool) -> None:
        """Step, unless there is nothing to step with or the guard refuses."""
        if not is_empty:
            # Ranks must decide alike: the norm is that of all of them, the loss their own.
            known_loss = float(loss) if self.trainer.world_size == 1 else 0.0
            if reason := self.update_guard.reason_to_skip(known_loss, float(grad_norm)):
                self.num_skipped_updates += 1
                warnings.warn(f"update {self.policy_version + 1} is left out: {reason}", RuntimeWarning, stacklevel=2)
            else:
                optimizer.step()
                self._scheduler.step()
        optimizer.zero_grad()
        if self.device.type == "cpu":
            give_back_freed_memory()
        self.policy_version += 1

    def _note_update(
        self, batch: TrainingBatch, loss: Tensor, grad_norm: Tensor, totals: dict[str, Tensor], *, lr: float
    ) -> None:
        computed_tokens = sum(microbatch.num_computed_tokens for microbatch in batch.all_microbatches)
        own_tokens = sum(microbatch.num_computed_tokens for microbatch in batch)
        sums = {name: float(value) for name, value in totals.items()}
        sums = self.ranks.totals(sums | {"loss": float(loss), "computed_tokens": float(computed_tokens)})
        self.update_metrics = {
            "train/loss": sums.pop("loss"),
            "train/grad_norm": float(grad_norm),
            "train/skipped_updates": float(self.num_skipped_updates),
            "train/memory_retries": float(self.num_memory_retries),
            "train/lr": lr,
            **update_figures(sums),
            **self._drift.figures(),
        }
        if batch.streamed is not None:
            self.update_metrics["train/streamed_ratio"] = (computed_tokens - own_tokens) / max(computed_tokens, 1)
