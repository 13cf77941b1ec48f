"""The command line that this training job was started with, and the one that goes on with it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from ada_lightning.run.resume import SESSION_OPTIONS
from ada_lightning.run.run_dir import RunDir
from ada_lightning.run.terminal import start_of


def is_sweep() -> bool:
    """Whether this job is one of a sweep (``-m``)."""
    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


def own_command() -> str:
    """Command line of this job, without what names the run and says how to resume; empty where Hydra made none."""
    if not HydraConfig.initialized():
        return ""
    return without_session([*added_folders(), *HydraConfig.get().overrides.task])


def added_folders() -> list[str]:
    """Return ``--config-dir=<folder>`` of this job, where its configuration had one."""
    sources = HydraConfig.get().runtime.config_sources
    return [f"--config-dir={source.path}" for source in sources if source.provider == "command-line"]


def without_session(arguments: Sequence[str]) -> str:
    """Spell a command line that trains without what names the run and says how to resume."""
    kept = [line for line in arguments if line.partition("=")[0] not in SESSION_OPTIONS]
    return shlex.join([*start_of("train"), *kept])


def how_to_continue(run_dir: RunDir) -> str:
    """Options that go on with a run; with its whole sweep, whose options would start one within the run's folder."""
    if is_sweep():
        return f"ckpt=auto {RunDir(HydraConfig.get().sweep.dir).option}"
    return f"ckpt=last {run_dir.option}"
