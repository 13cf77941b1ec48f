"""Train: ``python train.py +experiment=ada_seq_balance``. See conf/train.yaml for what can be changed."""

from __future__ import annotations

import ada_lightning.run.interrupted_start  # noqa: F401 - first: from here on Ctrl-C is no traceback

# isort: split
import os
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
import yaml
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from ada_lightning.config.choices import register_choices
from ada_lightning.parallel.environment import is_first_process
from ada_lightning.parallel.ranks import LeaderStopped
from ada_lightning.rollout.engines.engine_environment import num_cores
from ada_lightning.rollout.engines.exit_codes import REQUEUE
from ada_lightning.rollout.engines.guard import EngineError
from ada_lightning.run.credentials import take_from_config, take_from_start
from ada_lightning.run.files import allow_open_files
from ada_lightning.run.resume import (
    SESSION_OPTIONS,
    changed_settings,
    check_method,
    check_same_shape,
    experiment_option,
)
from ada_lightning.run.run_dir import RunCompleteError, RunDir, make_private, name_problem
from ada_lightning.run.run_stopped import RunStoppedError
from ada_lightning.run.sweep import JobError, Sweep

if TYPE_CHECKING:
    from lightning.pytorch import Trainer

    from ada_lightning.config.assembly import ServedModel

# Only light imports stand above: reward workers and wrong command lines must not wait for torch. And torch reads the
# number of threads once, at import; where it is not set, vLLM cuts the whole process, training included, to one.
os.environ.setdefault("OMP_NUM_THREADS", str(num_cores()))
CONFIG_DIR = Path(__file__).parent / "conf"
register_choices(CONFIG_DIR)
SWEEP = Sweep()


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg: DictConfig) -> float | None:
    """Run one training job; a sweep gets its final held-out avg@k."""
    if not _is_sweep():
        return run_job(cfg)
    _name_sweep_run(cfg)
    options = [line for line in sys.argv[1:] if line.partition("=")[0] not in SESSION_OPTIONS]
    SWEEP.way_on = shlex.join(["python", "train.py", *options, *_how_to_continue(RunDir(cfg.run_dir)).split()])
    return SWEEP.run(partial(train, cfg), f"{cfg.run_name} ({' '.join(HydraConfig.get().overrides.task)})")


def run_job(cfg: DictConfig) -> float | None:
    """Train, and end the process with one of :mod:`ada_lightning.rollout.engines.exit_codes` where that fails."""
    try:
        return train(cfg)
    except RunCompleteError as error:
        sys.exit(f"error: {error}" if is_first_process() else 1)
    except JobError as error:
        sys.exit(str(error))


def train(cfg: DictConfig) -> float | None:
    """Check a composed configuration, and train.

    Returns:
        The last held-out avg@k; None where there was no evaluation.

    Raises:
        JobError: the run was refused or stopped.
        RunCompleteError: nothing is left to do.
        SystemExit: a signal stopped it, or it is one of several processes and another one tells why.
    """
    take_from_config(cfg)
    run_dir = RunDir(cfg.run_dir)
    try:
        run = _prepared(cfg, run_dir)
    except BaseException:
        run_dir.give_up()
        raise
    try:
        return _fit(run)
    finally:
        run_dir.release()


def _prepared(cfg: DictConfig, run_dir: RunDir) -> Run:
    """Refuse what cannot work, claim the folder, and make every part of the run."""
    from ada_lightning.run.doctor import explain_broken_install

    changed: list[str] = []
    try:
        hardware = _check(cfg, is_sweep=_is_sweep())
        if is_first_process():
            print(hardware, end="\n" if hardware else "", flush=True)
            if not cfg.preview:
                run_dir.claim(resume=cfg.ckpt is not None, or_start=cfg.ckpt == "auto")
                changed = _changes_at_resume(cfg, run_dir)
                print("\n".join(changed), end="\n" if changed else "", flush=True)
        return Run(cfg, run_dir)
    except RunCompleteError as error:
        if _is_sweep() and changed:  # its figure would be taken for one of these settings
            raise JobError(
                f"error: {run_dir.path} has a complete run with other settings; name this sweep anew: "
                "run_name=<new name>"
            ) from error
        raise
    except ValueError as error:
        if not is_first_process():
            sys.exit(1)
        raise JobError(f"error: {error}") from error
    except ImportError as error:
        raise JobError(explain_broken_install(error) or f"error: {type(error).__name__}: {error}") from error


def _changes_at_resume(cfg: DictConfig, run_dir: RunDir) -> list[str]:
    """Say what a run that is to be continued will do in another way than before.

    Raises:
        ValueError: it would be another method, and that is not allowed.
    """
    if cfg.ckpt is None or not run_dir.has_checkpoint() or not (stored := run_dir.stored_config()):
        return []
    new = yaml.safe_load(OmegaConf.to_yaml(cfg, resolve=True))
    if not cfg.allow_other_method:
        options = experiment_option(stored, CONFIG_DIR) or f"those in {run_dir.path / 'config.yaml'}"
        command = run_dir.stored_command() or f"{options} ..."
        check_method(stored, new, way_back=f"{command} {_how_to_continue(run_dir)}")
    changed = [f"  {key}: {old} -> {now}" for key, (old, now) in changed_settings(stored, new).items()]
    return ["continuing with other settings than before:", *changed] if changed else []


def _check(cfg: DictConfig, *, is_sweep: bool) -> str:
    """Find what can be found wrong before any model loads; what the trainer chose of this machine, for people."""
    from ada_lightning.config.check import check_config
    from ada_lightning.config.parallel import check_sweep
    from ada_lightning.parallel.hardware import check_devices, choose_hardware

    hardware = choose_hardware(cfg.trainer)
    allow_open_files()
    check_config(cfg)
    check_devices(cfg.trainer)
    if is_sweep:
        check_sweep(cfg)
    return hardware


def _fit(run: Run) -> float | None:
    try:
        return run.fit()
    except RunStoppedError as error:
        raise JobError(f"stopped: {error}") from error
    except LeaderStopped as stop:
        sys.exit(stop.exit_code)
    except EngineError as error:
        log = "" if "engine.log" in str(error) else f"{run.run_dir.path / 'engine.log'} may tell more; "
        raise JobError(
            f"stopped: the engine broke and could not be replaced ({error}); {log}out of memory: lower "
            f"rollout.engine.max_num_seqs; {run.run_dir.how_to_go_on()}"
        ) from error
    except ValueError as error:
        if run.has_begun:
            raise
        raise JobError(f"error: {error}") from error
    except OSError as error:
        if not (text := run.run_dir.explain(error)):
            raise
        if not (run.run_dir.path / "config.yaml").exists():
            run.write_settings()
        raise JobError(f"stopped: {text}") from error


class Run:
    """Every part of a training job, instantiated and wired."""

    def __init__(self, cfg: DictConfig, run_dir: RunDir) -> None:
        """Raise ValueError where something turns out wrong that only data or weights could show."""
        from lightning.pytorch import seed_everything

        from ada_lightning.config.assembly import read_model
        from ada_lightning.rollout.engines.quiet import quiet_libraries
        from ada_lightning.run.determinism import make_deterministic
        from ada_lightning.run.malloc import keep_freed_memory

        quiet_libraries()
        if cfg.trainer.get("accelerator") == "cpu":
            keep_freed_memory()
        seed_everything(cfg.seed, verbose=False)
        self.cfg, self.run_dir = cfg, run_dir
        make_deterministic(cfg.reproducible)
        self.has_begun = False
        self.checkpoint = _checkpoint_to_continue(cfg, run_dir)
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
        self.estimator = instantiate(cfg.estimator)
        if is_first_process():
            self.estimator.check_prompts(self.datamodule.train_prompts)
        self.policy = instantiate(
            cfg.policy,
            model_path=model_path,
            reference_path=initial_path,
            advantage=instantiate(cfg.advantage),
            loss=instantiate(cfg.loss),
            attention=instantiate(cfg.attention),
            optimizer=instantiate(cfg.optimizer),
            parameters=parameters,
            checkpoint_path=self.checkpoint,
            token_masks=list(instantiate(cfg.token_masks).values()),
        )
        self.callbacks = self._callbacks(model.tokenizer, model.eos_token_ids)
        self.loggers = [] if cfg.preview else list(instantiate(cfg.logger).values())

    def fit(self) -> float | None:
        """Train, and leave nothing running."""
        from lightning.pytorch.callbacks import LambdaCallback

        from ada_lightning.methods.estimators.history_file import write_history
        from callbacks.cost_preview import PreviewDone
        from callbacks.evaluation import Evaluation
        from callbacks.interrupt_guard import InterruptGuard

        try:
            trainer: Trainer = instantiate(
                self.cfg.trainer,
                callbacks=[LambdaCallback(on_train_start=lambda *_: self._begin()), *self.callbacks],
                logger=self.loggers,
                log_every_n_steps=1,  # callbacks log, and not by Lightning's interval, of which it would warn
            )
            if is_first_process():
                print(self.datamodule.report.text(), flush=True)
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
                print(f"continue with the same options and: {_how_to_continue(self.run_dir)}", flush=True)
            if any(isinstance(part, InterruptGuard) and part.asks_for_requeue for part in self.callbacks):
                sys.exit(REQUEUE)
            raise
        finally:
            self.service.close()
            self.grader.close()
            self.run_dir.release()
        return next((part.last_average for part in self.callbacks if isinstance(part, Evaluation)), None)

    def _begin(self) -> None:
        """Nothing stands in the way any more; what is refused before leaves a run's folder as it was."""
        self.has_begun = True
        if is_first_process() and not self.cfg.preview:
            self.write_settings()

    def write_settings(self) -> None:
        """Keep what the run is made of, in its folder."""
        self.run_dir.write_config(self.cfg, _own_command())
        self.datamodule.report.write(self.run_dir.path)

    def _data(self, tokenizer: Any) -> Any:
        """Prompts belong to the first of several processes: it alone rolls them out."""
        from ada_lightning.config.assembly import read_data

        curriculum = instantiate(self.cfg.curriculum)
        if is_first_process():
            return read_data(self.cfg, tokenizer, self.grader, curriculum=curriculum)
        return instantiate(self.cfg.data, curriculum=curriculum)

    def _callbacks(self, tokenizer: Any, eos_token_ids: list[int]) -> list[Any]:
        sampler, selection = instantiate(self.cfg.sampler), instantiate(self.cfg.selection)
        refill = instantiate(self.cfg.refill)
        completed = {
            "adaptive_sampling": {
                "service": self.service,
                "grader": self.grader,
                "estimator": self.estimator,
                "sampler": sampler,
                "selection": selection,
                "tokenizer": tokenizer,
                "eos_token_ids": eos_token_ids,
                "refill": refill,
            },
            "objective_statement": {"sampler": sampler, "selection": selection, "refill": refill},
            "preview": {"service": self.service, "sampler": sampler, "selection": selection, "refill": refill},
            "evaluation": {"service": self.service},
            "checkpoint": {"tokenizer": tokenizer},
        }
        parts = instantiate(self.cfg.callbacks)
        return [part(**completed[name]) if isinstance(part, partial) else part for name, part in parts.items()]


def _checkpoint_to_continue(cfg: DictConfig, run_dir: RunDir) -> Path | None:
    """Return the newest good checkpoint of a run that is to be continued.

    Raises:
        ValueError: there is none, nothing is left to do, or it cannot go on reproducibly here.
    """
    if cfg.ckpt is None or (cfg.ckpt == "auto" and not run_dir.has_checkpoint()):
        return None
    checkpoint = run_dir.good_checkpoint()
    run_dir.check_not_complete(cfg.num_steps)
    if cfg.reproducible:
        import torch

        from callbacks.environment import check_same_environment

        check_same_environment(checkpoint, torch.device("cpu" if cfg.trainer.accelerator == "cpu" else "cuda"))
    return checkpoint


def _is_sweep() -> bool:
    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


def _own_command() -> str:
    """Command line of this job, without what names the run and says how to resume."""
    if not HydraConfig.initialized():
        return ""
    options = [line for line in HydraConfig.get().overrides.task if line.partition("=")[0] not in SESSION_OPTIONS]
    return shlex.join(["python", "train.py", *options])


def _how_to_continue(run_dir: RunDir) -> str:
    """Options that go on with a run; with its whole sweep, whose options would start one within the run's folder."""
    if _is_sweep():
        return f"ckpt=auto {RunDir(HydraConfig.get().sweep.dir).option}"
    return f"ckpt=last {run_dir.option}"


def _name_sweep_run(cfg: DictConfig) -> None:
    """Give each job of a sweep its own folder inside the sweep's, and its sweep as MLflow parent."""
    job = HydraConfig.get()
    cfg.run_dir = job.runtime.output_dir
    cfg.run_name = f"{Path(job.sweep.dir).name}/{job.job.num}"
    make_private(Path(job.sweep.dir), beside=("multirun.yaml", Path(cfg.run_dir).name))
    if "mlflow" in cfg.logger:
        cfg.logger.mlflow.parent = Path(job.sweep.dir).name


def _foresee_refusals(argv: list[str]) -> None:
    """Say which jobs of a sweep will be refused, before the first of them, which may take hours."""
    from ada_lightning.config.overrides import sweep_jobs

    jobs = sweep_jobs(argv, CONFIG_DIR, "train")
    SWEEP.num_planned = len(jobs)
    for number, (overrides, cfg) in enumerate(jobs):
        if problem := name_problem(str(cfg.run_name)):
            sys.exit(f"error: {problem}")  # Hydra makes the folder of the sweep by itself
        try:
            _check(cfg, is_sweep=True)
        except ValueError as error:
            print(f"job {number} will be refused ({' '.join(overrides)}): {error}", file=sys.stderr, flush=True)
        except ImportError:
            return  # each job explains a broken installation


if __name__ == "__main__":
    from ada_lightning.config.check import override_errors
    from ada_lightning.rollout.engines.quiet import plain_warnings
    from ada_lightning.run.scratch import use_own_scratch

    sys.argv[1:] = take_from_start(sys.argv[1:])
    plain_warnings()
    use_own_scratch()
    if errors := override_errors(sys.argv[1:], CONFIG_DIR, "train"):
        sys.exit("\n".join(f"error: {error}" for error in errors) if is_first_process() else 1)
    _foresee_refusals(sys.argv[1:])
    try:
        main()
    finally:
        SWEEP.report()
