"""Every part of a training job, made from the configuration and handed to Lightning's trainer.

Read next: ``callbacks/adaptive_sampling.py``, Lightning's side of the loop, and ``rollout/loop.py``, what a step is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from hydra.utils import get_object, instantiate
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.callbacks import LambdaCallback
from omegaconf import DictConfig, OmegaConf

from ada_lightning.callbacks.adaptive_sampling import cut_solutions
from ada_lightning.callbacks.checkpoint import InterruptGuard
from ada_lightning.callbacks.cost_preview import PreviewDone
from ada_lightning.callbacks.environment import check_same_environment
from ada_lightning.callbacks.evaluation import Evaluation
from ada_lightning.config.assembly import ServedModel, make_parts, read_data, read_model
from ada_lightning.config.check import COMPLETED
from ada_lightning.core.method import Method
from ada_lightning.core.named_state import check_named_state
from ada_lightning.core.prompt_columns import num_distinct
from ada_lightning.data.datamodule import check_same_updates
from ada_lightning.data.formats import warn_of_other_end
from ada_lightning.methods.estimators.history_file import write_history
from ada_lightning.parallel.environment import is_first_process
from ada_lightning.programs.command import how_to_continue, own_command
from ada_lightning.rewards.hints import start_lines
from ada_lightning.rollout.async_rollouts import check_same_lag
from ada_lightning.run.checkpoints import read_trainer_state
from ada_lightning.run.determinism import make_deterministic
from ada_lightning.run.machine import keep_freed_memory
from ada_lightning.run.resume import check_same_shape
from ada_lightning.run.run_dir import RunDir
from ada_lightning.run.stopping import REQUEUE
from ada_lightning.run.terminal import quiet_libraries


class Run:
    """Every part of a training job, instantiated and wired."""

    def __init__(self, cfg: DictConfig, run_dir: RunDir) -> None:
        """Raise ValueError where something turns out wrong that only data or weights could show."""
        quiet_libraries()
        if cfg.trainer.get("accelerator") == "cpu":
            keep_freed_memory()
        seed_everything(cfg.seed, verbose=False)
        self.cfg, self.run_dir = cfg, run_dir
        make_deterministic(cfg.reproducible)
        self.has_begun = False
        self.checkpoint = checkpoint_to_continue(cfg, run_dir)
        initial_path = instantiate(cfg.model).prepare()
        if self.checkpoint:
            check_same_shape(initial_path, self.checkpoint)
        parameters = instantiate(cfg.parameters)
        model_path = parameters.weights_folder(initial_path, self.checkpoint)
        self.grader, self.service = instantiate(cfg.reward), instantiate(cfg.rollout)
        try:
            self._assemble(read_model(model_path), model_path, initial_path, parameters)
        except BaseException:
            self.grader.close()  # its workers may be running, and a sweep goes on
            raise

    def _assemble(self, model: ServedModel, model_path: Path, initial_path: Path, parameters: Any) -> None:
        """Make the parts that need the tokenizer or the data."""
        cfg = self.cfg
        self.datamodule = self._data(model.tokenizer)
        self.tokenizer = model.tokenizer
        self.service.check_template(model.tokenizer, model.eos_token_ids)
        if is_first_process():
            warn_of_other_end(model.tokenizer, self.datamodule.format, model.eos_token_ids)
        self.estimator = instantiate(cfg.estimator)
        self.policy = instantiate(cfg.policy, _partial_=True)(
            model_path=model_path,
            reference_path=initial_path,
            advantage=instantiate(cfg.advantage),
            loss=instantiate(cfg.loss),
            optimizer=instantiate(cfg.optimizer),
            parameters=parameters,
            checkpoint_path=self.checkpoint,
            token_masks=list(make_parts(cfg.token_masks).values()),
        )
        self.callbacks = self._callbacks(model.tokenizer, model.eos_token_ids)
        self.loggers = [] if cfg.preview else list(make_parts(cfg.logger).values())

    def fit(self) -> float | None:
        """Train, and leave nothing running."""
        with self.run_dir.lent() if self.cfg.preview and is_first_process() else nullcontext():
            return self._fit()

    def _fit(self) -> float | None:
        try:
            trainer: Trainer = instantiate(
                self.cfg.trainer,
                callbacks=[LambdaCallback(on_train_start=lambda *_: self._begin()), *self.callbacks],
                logger=self.loggers,
                log_every_n_steps=1,  # callbacks log, and not by Lightning's interval, of which it would warn
            )
            if is_first_process():
                print("\n".join(self._opening_lines()), flush=True)
            for logger in self.loggers:
                logger.log_hyperparams(OmegaConf.to_container(self.cfg, resolve=True))
            state = self.checkpoint / "trainer.ckpt" if self.checkpoint else None
            trainer.fit(self.policy, datamodule=self.datamodule, ckpt_path=state, weights_only=True)
            if is_first_process() and (counts := self.estimator.history_counts()):
                write_history(self.run_dir.path / "history.json", counts)
        except PreviewDone:
            return None
        except SystemExit:  # how Lightning ends a run that was interrupted
            if is_first_process() and self.run_dir.has_checkpoint():
                print(f"continue with the same options and: {how_to_continue(self.run_dir)}", flush=True)
            if any(isinstance(part, InterruptGuard) and part.asks_for_requeue for part in self.callbacks):
                sys.exit(REQUEUE)
            raise
        finally:
            self._finish_report()
            self.service.close()
            self.grader.close()
            self.run_dir.release()
            for part in self.callbacks:
                if isinstance(part, InterruptGuard):
                    part.release()
        return next((part.last_average for part in self.callbacks if isinstance(part, Evaluation)), None)

    def _opening_lines(self) -> list[str]:
        data = self.datamodule
        lines = [data.report.text()]
        if data.stream is None and (number := num_distinct(data.train_prompts)) < data.prompts_per_step:
            lines.append(
                f"warning: data.prompts_per_step = {data.prompts_per_step}, but there are {number} training prompts: "
                f"each step repeats some of them. data.prompts_per_step={number} avoids that"
            )
        lines += start_lines(self.grader.reward, data.train_prompts, self.tokenizer)
        if not self.cfg.preview:
            begins = f", continued from {self.checkpoint.name}" if self.checkpoint else ""
            lines.append(f"run folder: {self.run_dir.path}{begins}")
        return lines

    def _begin(self) -> None:
        """Nothing stands in the way any more; what is refused before leaves a run's folder as it was."""
        self.has_begun = True
        if is_first_process() and not self.cfg.preview:
            self.write_settings()

    def write_settings(self) -> None:
        """Keep what the run is made of, in its folder."""
        self.run_dir.write_config(self.cfg, own_command())
        self.datamodule.report.write(self.run_dir.path)

    def _finish_report(self) -> None:
        self.datamodule.finish_report()
        if self.has_begun and is_first_process() and not self.cfg.preview:
            self.datamodule.report.write(self.run_dir.path)

    def _data(self, tokenizer: Any) -> Any:
        """Prompts belong to the first of several processes: it alone rolls them out."""
        curriculum = instantiate(self.cfg.curriculum)
        if is_first_process():
            return read_data(self.cfg, tokenizer, self.grader, curriculum=curriculum)
        return instantiate(self.cfg.data, _partial_=True)(curriculum=curriculum)

    def _callbacks(self, tokenizer: Any, eos_token_ids: list[int]) -> list[Any]:
        given = {name: instantiate(self.cfg[name]) for name in ("sampler", "selection", "refill", "hints")}
        given["method"] = Method(estimator=self.estimator, **given)
        if is_first_process():
            data = self.datamodule
            cut_solutions(given["method"], data, tokenizer, self.grader, self.service)
            given["method"].check_prompts(data.listed_prompts)
            data.curriculum.check_prompts(data.listed_prompts, data.prompts_per_step)
        given |= {"service": self.service, "grader": self.grader}
        given |= {"tokenizer": tokenizer, "eos_token_ids": eos_token_ids}
        return [
            part(**{key: given[key] for key in COMPLETED[f"callbacks.{name}"]}) if isinstance(part, partial) else part
            for name, part in make_parts(self.cfg.callbacks).items()
        ]


def checkpoint_to_continue(cfg: DictConfig, run_dir: RunDir) -> Path | None:
    """Return the newest good checkpoint of a run that is to be continued.

    Raises:
        ValueError: there is none, nothing is left to do, it cannot go on reproducibly here, or not with these settings.
    """
    if cfg.ckpt is None or (cfg.ckpt == "auto" and not run_dir.has_checkpoint()):
        return None
    checkpoint = run_dir.good_checkpoint()
    run_dir.check_not_complete(cfg.num_steps)
    if cfg.reproducible:
        check_same_environment(checkpoint, torch.device("cpu" if cfg.trainer.accelerator == "cpu" else "cuda"))
    check_remembered(cfg, read_trainer_state(checkpoint))
    return checkpoint


def check_remembered(cfg: DictConfig, state: Mapping[str, Any]) -> None:
    """Refuse settings that cannot go on with what the run remembers, by the checks that loading makes later."""
    method, data = state["callbacks"].get("AdaptiveSampling"), state.get("RolloutDataModule")
    if method is not None:
        check_same_lag(now=cfg.rollout.max_staleness, before=method.get("ahead", {}).get("max_staleness", 0))
    if data is not None:
        check_same_updates(cfg.data, data)
    for setting, saved in {**(method or {}), **(data or {})}.items():
        if setting in ("sampler", "estimator", "selection", "curriculum") and cfg.get(setting):
            made = get_object(cfg[setting]._target_)
            if isinstance(made, type):  # a function may make a part of any class
                check_named_state(made.__name__, saved, setting=setting)
