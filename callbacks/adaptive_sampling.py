"""Lightning's side of the loop: starts and stops the sampling, logs it, and says when the method learns.

Read next: ``rollout/loop.py``, what a step is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from ada_lightning.core.method import Method
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.rewards.pool import RewardPool
from ada_lightning.rollout.async_rollouts import check_same_lag
from ada_lightning.rollout.loop import Loop
from ada_lightning.rollout.probe import GapLimits
from ada_lightning.rollout.service import RolloutService
from ada_lightning.run.determinism import seed_generators
from ada_lightning.training.batch import TrainingBatch
from ada_lightning.training.models.served import read_model
from ada_lightning.training.streamed import StreamedGradients, check_streaming

from .budget import share_spent
from .rollout_listener import StepLog, tell_nothing_left
from .run_parts import run_parts


def cut_solutions(
    method: Method, data: RolloutDataModule, tokenizer: Any, grader: RewardPool, service: RolloutService
) -> None:
    """Give prompts the beginnings of their worked solutions where the method gives hints, or let the policy write."""
    if method.hints.writes:
        data.connect_hints(method.hints)
    elif method.hints.is_on:
        threshold = service.settings.positive_threshold
        data.cut_solutions(tokenizer, grader, num_levels=method.hints.num_levels, positive_threshold=threshold)
    if method.hints.is_on:
        method.hints.check_room(data.listed_prompts, service.max_model_tokens - service.sampling.max_new_tokens)


class AdaptiveSampling(Callback):
    """Drives the engine: one adaptive rollout per step, from the policy that the next update will change.

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

    loop: Loop
    """What a step is; :meth:`setup` makes it."""
    _log: StepLog

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
        compared = "sync/canary_gap" if service.max_staleness else "sync/logprob_gap"
        self._gaps = GapLimits(max_logprob_gap, stop_logprob_gap, name=compared)
        self.method, self.service, self.grader = method, service, grader
        self.tokenizer, self.eos_token_ids = tokenizer, tuple(eos_token_ids)
        self.run_dir = None if run_dir is None else Path(run_dir)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Make the loop before the data loader is asked for: Lightning fetches a batch before ``on_train_batch_start``.

        What nobody made ready is made so: the tokenizer, and in the leading process the prompts.

        Raises:
            ValueError: a file of the model is damaged, no training prompt is left, or parts do not go with streaming.
        """
        policy, data = run_parts(trainer, pl_module)
        method, service = self.method, self.service
        if self.tokenizer is None:
            model = read_model(policy.reference_path)
            self.tokenizer, self.eos_token_ids = model.tokenizer, tuple(self.eos_token_ids or model.eos_token_ids)
        if policy.ranks.is_leader and not data.train_prompts:
            data.read(self.tokenizer, self.grader)
            cut_solutions(method, data, self.tokenizer, self.grader, service)
            method.check_prompts(data.listed_prompts)
            data.curriculum.check_prompts(data.listed_prompts, data.prompts_per_step)
        policy.read_at_once(data.max_tokens_per_microbatch)
        streamed = None
        if service.stream_gradients:
            check_streaming(method, updates_per_rollout=data.updates_per_rollout, num_processes=trainer.world_size)
            pack = partial(data.pack_part, keep_all=policy.needs_groups_without_signal)
            streamed = StreamedGradients(policy, method.selection, pack, max_tokens=data.max_tokens_per_microbatch)
        self._log = StepLog(trainer, policy, service, self._gaps)
        self.loop = Loop(
            method,
            policy=policy,
            data=data,
            service=service,
            streamed=streamed,
            share_spent=partial(share_spent, trainer),
            report=self._log.note_rollout,
        )
        data.connect(
            self.loop,
            recall=self.loop.recall if method.estimator.remembers_prompts else None,
            max_staleness=service.max_staleness,
            is_leader=policy.ranks.is_leader,
            when_complete=partial(tell_nothing_left, trainer, policy),
        )
        method.sampler.connect(policy)
        method.estimator.connect(policy)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start graders and engine, in the leading process."""
        self.loop.policy.ranks.lead(lambda: self._start(self.run_dir or Path(trainer.default_root_dir)))

    def _start(self, folder: Path) -> None:
        policy = self.loop.policy
        with policy.clock.phase("start"):
            self.grader.start()
            self.service.open(
                model_path=policy.reference_path,  # outlives every checkpoint; the first sync brings the weights
                tokenizer=self.tokenizer,
                eos_token_ids=self.eos_token_ids,
                grader=self.grader,
                log_file=folder / "engine.log",
            )

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: TrainingBatch, batch_idx: int
    ) -> None:
        """Let an update draw the same random numbers whenever it is made."""
        seed_generators(seed=self.service.settings.seed, part="update", index=self.loop.policy.policy_version)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: TrainingBatch, batch_idx: int
    ) -> None:
        """Log the update, and learn from a step whose last update it is, before a checkpoint is written.

        Raises:
            RunStoppedError: engine and trainer differ too much, or an alarm stops the run.
        """
        policy, data = self.loop.policy, self.loop.data
        data.note_updates_done(policy.policy_version)
        is_last = batch.update_index == data.updates_per_rollout - 1
        policy.ranks.lead(lambda: self._log.end_update(self.loop.learn if is_last else None))

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
        ahead = self.loop.ahead
        return self.method.state_dict() if ahead is None else self.method.state_dict() | {"ahead": ahead.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`.

        Raises:
            ValueError: a part of another class remembers something that its successor cannot read, or the run had
                another ``rollout.max_staleness``.
        """
        ahead = state_dict.get("ahead", {})
        check_same_lag(now=self.service.max_staleness, before=ahead.get("max_staleness", 0))
        self.method.load_state_dict(state_dict)
        if self.loop.ahead is not None:
            self.loop.ahead.load_state_dict(ahead)
