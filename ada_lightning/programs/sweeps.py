"""Training jobs of a sweep (``-m``): where each lies, which of them will be refused, how the sweep goes on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from ada_lightning.config.overrides import sweep_jobs
from ada_lightning.programs.command import how_to_continue, without_session
from ada_lightning.programs.start import CONFIG_DIR
from ada_lightning.programs.train import check, train
from ada_lightning.run.run_dir import RunDir, make_private, name_problem
from ada_lightning.run.sweep import Sweep

SWEEP = Sweep()


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
    """Say which jobs of a sweep will be refused, before the first of them, which may take hours."""
    jobs = sweep_jobs(argv, CONFIG_DIR, "train")
    SWEEP.num_planned = len(jobs)
    for number, (overrides, cfg) in enumerate(jobs):
        if problem := name_problem(str(cfg.run_name)):
            sys.exit(f"error: {problem}")  # Hydra makes the folder of the sweep by itself
        try:
            check(cfg, is_sweep=True)
        except ValueError as error:
            print(f"job {number} will be refused ({' '.join(overrides)}): {error}", file=sys.stderr, flush=True)
        except ImportError:
            return  # each job explains a broken installation
