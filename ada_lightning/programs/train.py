"""One training job from its composed configuration to its end: refused, trained, or stopped; and the jobs of a sweep.

Read next: ``programs/training_run.py``, which makes every part of a run and fits.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ada_lightning.config.overrides import sweep_jobs
from ada_lightning.methods.catalog import experiments
from ada_lightning.parallel.environment import end_with, is_first_process
from ada_lightning.parallel.ranks import LeaderStopped
from ada_lightning.programs.command import how_to_continue, is_sweep, without_session
from ada_lightning.programs.start import CONFIG_DIR, UNREAD_TEXT, begin_to_read
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.run.credentials import take_from_config
from ada_lightning.run.files import allow_open_files
from ada_lightning.run.importing import importing
from ada_lightning.run.resume import changed_settings, check_method, check_optimizer, experiment_option
from ada_lightning.run.run_dir import RunCompleteError, RunDir, make_private, name_problem
from ada_lightning.run.stopping import RunStoppedError
from ada_lightning.run.sweep import JobError, Sweep
from ada_lightning.run.terminal import until_nobody_reads

if TYPE_CHECKING:
    from ada_lightning.programs.training_run import Run

SWEEP = Sweep()


def run_job(cfg: DictConfig) -> float | None:
    """Train, and end the process with one of :mod:`ada_lightning.run.stopping` where that fails."""
    try:
        with until_nobody_reads(UNREAD_TEXT):
            return train(cfg)
    except RunCompleteError as error:
        end_with(f"error: {error}")
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
        begin_to_read(cfg.data)
        hardware = check(cfg, is_sweep=is_sweep())
        if is_first_process():
            print(hardware, end="\n" if hardware else "", flush=True)
            if not cfg.preview:
                run_dir.claim(resume=cfg.ckpt is not None, or_start=cfg.ckpt == "auto")
                changed = changes_at_resume(cfg, run_dir)
                print("\n".join(changed), end="\n" if changed else "", flush=True)
        with importing():
            from ada_lightning.programs.training_run import Run

        return Run(cfg, run_dir)
    except RunCompleteError as error:
        if is_sweep() and changed:  # its figure would be taken for one of these settings
            raise JobError(
                f"error: {run_dir.path} has a complete run with other settings; name this sweep anew: "
                "run_name=<new name>"
            ) from error
        raise
    except ValueError as error:
        if not is_first_process():
            end_with(str(error))
        raise JobError(f"error: {error}") from error
    except ImportError as error:
        raise JobError(explain_broken_install(error) or f"error: {type(error).__name__}: {error}") from error


def changes_at_resume(cfg: DictConfig, run_dir: RunDir) -> list[str]:
    """Say what a run that is to be continued will do in another way than before.

    Raises:
        ValueError: it would be another method, and that is not allowed; or it is another job of the sweep; or another
            optimiser.
    """
    if cfg.ckpt is None or not run_dir.has_checkpoint() or not (stored := run_dir.stored_config()):
        return []
    new = yaml.safe_load(OmegaConf.to_yaml(cfg, resolve=True))
    changes = changed_settings(stored, new)
    if moved := [f"{key}: {old} -> {now}" for key, (old, now) in changes.items() if key in SWEEP.swept]:
        raise ValueError(
            f"{run_dir.path} is of another job of the sweep ({'; '.join(moved)}): jobs are known by their number; "
            "repeat the values in the order that they had, or name this sweep anew: run_name=<new name>"
        )
    if not cfg.allow_other_method:
        options = experiment_option(stored, experiments(CONFIG_DIR)) or f"those in {run_dir.path / 'config.yaml'}"
        command = run_dir.stored_command() or f"{options} ..."
        check_method(stored, new, way_back=f"{command} ckpt=last {run_dir.option}")
    check_optimizer(stored, new)
    changed = [f"  {key}: {old} -> {now}" for key, (old, now) in changes.items()]
    return ["continuing with other settings than before:", *changed] if changed else []


def check(cfg: DictConfig, *, is_sweep: bool) -> str:
    """Find what can be found wrong before any model loads; what the trainer chose of this machine, for people."""
    with importing():
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
        raise JobError(f"stopped: {error}; {run.run_dir.how_to_go_on()}") from error
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


def run_sweep_job(cfg: DictConfig) -> float | None:
    """Train one job in a folder of its own inside the sweep's, with the sweep as its MLflow parent.

    Returns:
        Its last held-out avg@k.

    Raises:
        SweepJobError: the job failed; the sweep goes on.
    """
    job = HydraConfig.get()
    sweep = Path(job.sweep.dir)
    cfg.run_dir = job.runtime.output_dir
    cfg.run_name = f"{sweep.name}/{job.job.num}"
    make_private(sweep, beside=("multirun.yaml", Path(cfg.run_dir).name))
    name_sweep(cfg.logger, sweep.name)
    SWEEP.way_on = f"{without_session(sys.argv[1:])} {how_to_continue(RunDir(cfg.run_dir))}"
    return SWEEP.run(partial(train, cfg), f"{cfg.run_name} ({' '.join(job.overrides.task)})")


def name_sweep(loggers: DictConfig, sweep: str) -> None:
    """Tell the trackers of a job which sweep it belongs to, each by the option that it has for that."""
    for tool, option in (("mlflow", "parent"), ("wandb", "group"), ("trackio", "group")):
        if tool in loggers:
            loggers[tool][option] = sweep


def foresee_refusals(argv: Sequence[str]) -> None:
    """Say which jobs of a sweep will be refused, before the first of them, which may take hours.

    Raises:
        SystemExit: the sweep has no folder that can be its own, which Hydra would make by itself.
    """
    jobs = sweep_jobs(argv, CONFIG_DIR, "train")
    SWEEP.num_planned = len(jobs)
    if problem := _folder_problem([cfg for _, cfg in jobs]):
        sys.exit(f"error: {problem}")
    SWEEP.swept = _swept_settings([cfg for _, cfg in jobs])
    for number, (overrides, cfg) in enumerate(jobs):
        try:
            check(cfg, is_sweep=True)
        except ValueError as error:
            print(f"job {number} will be refused ({' '.join(overrides)}): {error}", file=sys.stderr, flush=True)
        except ImportError:
            return  # each job explains a broken installation


def _folder_problem(jobs: Sequence[DictConfig]) -> str:
    """Say why the jobs of a sweep cannot lie in one folder; an empty text where they can."""
    folders: dict[str, None] = {}  # a set that keeps the order
    for cfg in jobs:
        OmegaConf.copy_cache(jobs[0], cfg)  # the time, which may be part of a name, is that of the first job
        if problem := name_problem(str(cfg.run_name)):
            return problem
        folders[str(cfg.run_dir)] = None
    if len(folders) > 1:
        return (
            f"a sweep has one folder, with its jobs in the folders 0, 1, ... of it, and these jobs name {len(folders)} "
            f"({', '.join(folders)}); give the sweep one name: run_name=<name>"
        )
    used = [folder for folder in folders if (Path(folder) / "config.yaml").exists()]
    return f"{used[0]} is the folder of a run; give the sweep a name of its own: run_name=<new name>" if used else ""


def _swept_settings(jobs: Sequence[DictConfig]) -> set[str]:
    """Return the dotted keys in which jobs differ; none where one cannot be resolved, as it says when it starts."""
    try:
        settings: list[Any] = [OmegaConf.to_container(cfg, resolve=True) for cfg in jobs]
    except OmegaConfBaseException:
        return set()
    return {key for later in settings[1:] for key in changed_settings(settings[0], later)}
