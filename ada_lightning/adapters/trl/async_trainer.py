"""TRL's AsyncGRPOTrainer with a memory: ``docs/trl.md``, section on asynchronous training."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from trl.experimental.async_grpo import AsyncGRPOTrainer
from trl.experimental.async_grpo.async_rollout_worker import AsyncRolloutWorker, _AsyncRolloutLoop

from ada_lightning.adapters.composed import compose_method
from ada_lightning.adapters.trl.async_loop import AdaRolloutLoop, AdaRolloutWorker, LoopSettings, state_file
from ada_lightning.adapters.trl.async_rows import Arrangement
from ada_lightning.adapters.trl.rows import PromptRows
from ada_lightning.config.problems import ConfigError

NAMES = ("_repeat_iterator", "_generate_one", "_generate_one_turn", "_post", "_score_group")
"""Of TRL's rollout loop, none of them public, and all overridden."""
if missing := [name for name in NAMES if not hasattr(_AsyncRolloutLoop, name)]:
    raise ImportError(f"TRL's rollout loop has no {', '.join(missing)}, which ada_lightning.adapters.trl uses")

_NEUTRAL = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0, "temperature": 1.0}
"""Arguments of AsyncGRPOConfig that change what responses are drawn from, and the values that leave it."""

_log = logging.getLogger(__name__)


class AsyncAda:
    """A method for :class:`AdaAsyncGRPOTrainer`.

    Args:
        method: a name of ``conf/experiment``.
        num_prompts: of a step, which is one update, over all processes.
        seed: of the choice of prompts and of the method's own draws.
        open_steps: steps under way at once, at least 2: TRL's loader reads ahead. Rows are drawn by a policy that is
            at most ``open_steps - 1`` updates old.
        id_column: of the training set, with a name of each row that outlives changes of the data.
        reward_timeout: seconds of a call of the reward functions; the responses of a call that takes longer are
            ungraded.
        **overrides: as of :class:`~ada_lightning.adapters.core.Core`.

    Raises:
        ConfigError: the method cannot work.
        ValueError: a number that cannot be used.
    """

    def __init__(
        self,
        method: str,
        *,
        num_prompts: int,
        seed: int = 0,
        open_steps: int = 2,
        id_column: str | None = None,
        reward_timeout: float = 300.0,
        **overrides: Any,
    ) -> None:
        if open_steps < 2:
            raise ValueError(
                f"open_steps = {open_steps} would wait for ever: TRL's loader reads rows of the next step before an "
                "update; use at least 2, or GRPOTrainer"
            )
        if num_prompts < 1 or reward_timeout <= 0:
            raise ValueError(f"num_prompts = {num_prompts} and reward_timeout = {reward_timeout} must be above 0")
        self.max_kept = compose_method(method, overrides, seed=seed).max_kept
        if not self.max_kept:
            raise ConfigError([f"{method} does not say how many responses of a prompt train, and updates have a size"])
        self.num_prompts, self.open_steps = num_prompts, open_steps
        self._settings = partial(
            LoopSettings, method, num_prompts, seed, open_steps, id_column, reward_timeout, overrides
        )

    def config(self, *, num_processes: int = 1, rows_per_device: int | None = None) -> dict[str, Any]:
        """Return arguments of AsyncGRPOConfig with which each update is one step.

        Args:
            num_processes: that train.
            rows_per_device: ``per_device_train_batch_size``; the responses of one prompt by default.
        """
        rows = rows_per_device or self.max_kept
        return {
            "per_device_train_batch_size": rows,
            "gradient_accumulation_steps": -(-self.num_prompts * self.max_kept // (rows * num_processes)),
            "token_budget": 0,
            "max_staleness": max(self.open_steps - 1, 4),
        }

    def loop_settings(self, args: Any, processes: int, state: dict[str, Any] | None = None) -> LoopSettings:
        """Return what the rollout process is given.

        Args:
            args: AsyncGRPOConfig.
            processes: that train.
            state: to go on from.
        """
        microbatch = int(args.per_device_train_batch_size) * processes
        return self._settings(
            Arrangement(microbatch * int(args.gradient_accumulation_steps), microbatch, processes),
            int(args.weight_sync_steps),
            Path(args.output_dir).absolute() / "ada",
            state,
        )

    def refusals(self, args: Any, arrangement: Arrangement) -> Iterator[str]:
        """Yield a sentence for each argument with which an update would not be a step, or nothing would go on.

        Args:
            args: AsyncGRPOConfig.
            arrangement: of the rows.
        """
        if args.token_budget is None or args.token_budget > 0:
            yield (
                f"token_budget={args.token_budget} closes forward passes by their tokens, so an update would have any "
                "number of rows; use 0"
            )
        if arrangement.rows < self.num_prompts * self.max_kept:
            yield (
                f"an update takes {arrangement.rows} rows (per_device_train_batch_size * gradient_accumulation_steps * "
                f"processes), and {self.num_prompts} prompts may keep {self.num_prompts * self.max_kept}; ada.config() "
                "has numbers that fit"
            )
        if args.weight_sync_steps >= self.open_steps:
            yield (
                f"weight_sync_steps={args.weight_sync_steps} with open_steps={self.open_steps}: a step would wait for "
                "weights that come after it; use fewer, or more open steps"
            )
        if args.max_steps <= 0:
            yield "max_steps must be set: the length of the data set says nothing where prompts are chosen"

    def approximations(self, args: Any) -> Iterator[str]:
        """Yield a reason for each way in which the update departs from the statement.

        Args:
            args: AsyncGRPOConfig.
        """
        high = args.epsilon if args.epsilon_high is None else args.epsilon_high
        yield (f"old log-probabilities are the engine's, and ratios are clipped at 1 - {args.epsilon} and 1 + {high}")
        if args.max_staleness < self.open_steps - 1:
            yield (
                f"max_staleness={args.max_staleness} is less than open_steps - 1 = {self.open_steps - 1}: rows that "
                "are older train nothing, those of slow steps first"
            )
        if args.weight_sync_steps > 1:
            yield f"weight_sync_steps={args.weight_sync_steps}: the engine's weights are older still"
        if changed := [f"{name}={value!r}" for name, old in _NEUTRAL.items() if (value := getattr(args, name)) != old]:
            yield f"{', '.join(changed)}: responses come from another distribution than the one that is trained"


class AdaAsyncGRPOTrainer(AsyncGRPOTrainer):
    """TRL's trainer, with prompts, numbers and weights by a method.

    Args:
        ada: the method.
        **given: what AsyncGRPOTrainer takes.

    Raises:
        ConfigError: arguments with which rows would mean something else.
    """

    args: Any
    _statement: Any
    _drops: Any

    def __init__(self, *, ada: AsyncAda, **given: Any) -> None:
        if problems := list(_refused(given)):
            raise ConfigError(problems)
        super().__init__(**given)
        processes = int(self.accelerator.num_processes)
        self.ada, settings = ada, ada.loop_settings(self.args, processes)
        if problems := list(ada.refusals(self.args, settings.arrangement)):
            raise ConfigError(problems)
        self.reasons = list(ada.approximations(self.args))
        """Why the update is not exactly what the statement says."""
        self.num_too_old = 0
        """Rows that were older than ``max_staleness`` and trained nothing."""
        if isinstance(self.rollout_worker, AsyncRolloutWorker):
            brain = settings.brain(PromptRows(given["train_dataset"]), int(self.args.max_completion_length))
            self._statement = brain.core.statement
            self.rollout_worker.__class__ = AdaRolloutWorker  # TRL makes it, with what it knows of the model
            self._drops = self.rollout_worker._mp_ctx.Queue()
            self.rollout_queue = _AgedRows(self.rollout_queue, self)
            self.rollout_worker._loop_kwargs |= {
                "num_generations": 1,
                "score_queue_maxsize": self.args.max_inflight_tasks,
            }

    def statement(self) -> str:
        """Say what the update follows, and why it is approximate. Known in the main process."""
        reasons = list(self.reasons)
        if self.num_too_old:
            reasons.append(f"{self.num_too_old} rows were older than max_staleness={self.args.max_staleness}")
        said = self._statement(f"TRL's AsyncGRPOTrainer, up to {self.ada.open_steps - 1} updates behind (approximate)")
        return "\n".join([said, *(f"  approximate: {reason}" for reason in reasons)])

    def name_drop(self, group_id: int) -> None:
        """Tell the core of a row that is too old to train."""
        self.num_too_old += 1
        self._drops.put(group_id)
        self._metrics["train"]["ada/too_old_total"].append(1.0)
        step, slot = divmod(group_id, self.ada.num_prompts)
        _log.warning("a row of prompt %d of step %d is older than max_staleness, and trains nothing", slot, step)

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the sum of advantage times ratio: advantages are divided by the step's denominator already.

        TRL divides by the tokens of a forward pass, which depend on outcomes, and by the number of passes; processes
        take their mean. A count of one token for each process undoes the first, the factor the others.
        """
        processes, tokens = int(self.accelerator.num_processes), inputs["global_n_tokens"]
        factor = processes * self.current_gradient_accumulation_steps
        changed = {"advantages": inputs["advantages"] * factor, "global_n_tokens": torch.full_like(tokens, processes)}
        loss = super().compute_loss(model, inputs | changed, return_outputs, num_items_in_batch)
        self._step_trained_tokens += float(tokens[0]) - processes
        return loss

    def _inner_training_loop(self, *positional: Any, **given: Any) -> Any:
        if isinstance(self.rollout_worker, AsyncRolloutWorker):
            state = _state_of(given.get("resume_from_checkpoint"))
            settings = self.ada.loop_settings(self.args, int(self.accelerator.num_processes), state)
            settings.folder.mkdir(parents=True, exist_ok=True)
            self.rollout_worker._loop_cls = partial(AdaRolloutLoop, ada=settings, drops=self._drops)
            print(self.statement(), flush=True)
        return super()._inner_training_loop(*positional, **given)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        if isinstance(self.rollout_worker, AsyncRolloutWorker):
            step = int(self.state.global_step)  # each update is a step
            folder = Path(self._get_output_dir(trial=trial)) / f"checkpoint-{step}"
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(state_file(Path(self.args.output_dir).absolute() / "ada", step), folder / "ada.json")
        super()._save_checkpoint(model, trial)


class _AgedRows:
    """TRL's queue of rows, in which one that TRL would drop by its age keeps its place and trains nothing.

    So the rows behind it still train with their own step.
    """

    def __init__(self, rows: Any, trainer: AdaAsyncGRPOTrainer) -> None:
        self._rows, self._trainer = rows, trainer

    def get(self, timeout: float | None = None) -> Any:
        sample, trainer = self._rows.get(timeout=timeout), self._trainer
        if trainer.model_version - sample.model_version <= trainer.args.max_staleness:
            return sample
        trainer.name_drop(sample.group_id)
        return replace(sample, advantage=0.0, model_version=trainer.model_version)

    def qsize(self) -> int:
        return int(self._rows.qsize())


def _refused(given: dict[str, Any]) -> Iterator[str]:
    if given.get("rollout_worker") is not None:
        yield "rollout_worker=... has a loop of its own, which this trainer cannot drive; leave it out"
    if given.get("environment_factory") is not None:
        yield "environment_factory: TRL resets an environment before it is known which prompt is drawn; use tools"
    if not isinstance(given.get("train_dataset"), Dataset):
        yield "train_dataset must be a datasets.Dataset of all prompts, of which the method chooses"


def _state_of(checkpoint: Any) -> dict[str, Any] | None:
    if checkpoint is None:
        return None
    file = Path(os.fspath(checkpoint)) / "ada.json"
    if not file.exists():
        raise ValueError(f"{file} is missing: the checkpoint is of a run without AdaAsyncGRPOTrainer")
    state: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return state
