"""Which of several processes this one is, before torch is there: from what launchers leave in the environment."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

_SPEAK_S = 10.0
"""Longer than processes of one machine find the same error one after the other."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How many processes a launcher started."""

    launcher: str
    """``torchrun`` or ``srun``; empty where the program was started by itself."""
    processes_per_node: int
    num_nodes: int

    @property
    def num_processes(self) -> int:
        """On all machines together."""
        return self.processes_per_node * self.num_nodes


def launch(environment: Mapping[str, str] = os.environ) -> Launch:
    """Read how this process was started.

    Example:
        >>> torchrun = {"TORCHELASTIC_RUN_ID": "x", "LOCAL_WORLD_SIZE": "8", "WORLD_SIZE": "16", "RANK": "3"}
        >>> launch(torchrun)
        Launch(launcher='torchrun', processes_per_node=8, num_nodes=2)
        >>> launch({})
        Launch(launcher='', processes_per_node=1, num_nodes=1)
    """
    if "TORCHELASTIC_RUN_ID" in environment:
        per_node = int(environment.get("LOCAL_WORLD_SIZE", "1"))
        return Launch("torchrun", per_node, int(environment["WORLD_SIZE"]) // per_node)
    if _is_srun(environment):
        num_nodes = int(environment.get("SLURM_NNODES", "1"))
        return Launch("srun", int(environment["SLURM_NTASKS"]) // num_nodes, num_nodes)
    return Launch("", 1, 1)


def is_first_process(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process leads: it alone writes files and speaks to the person at the terminal.

    Known before any process group exists, so that two processes do not claim one folder.

    Example:
        >>> is_first_process({}), is_first_process({"RANK": "1", "LOCAL_RANK": "0"})
        (True, False)
        >>> is_first_process({"LOCAL_RANK": "1", "NODE_RANK": "0"}), is_first_process({"NODE_RANK": "1"})
        (False, False)
    """
    if "RANK" in environment:
        return int(environment["RANK"]) == 0
    if _is_srun(environment):
        return int(environment.get("SLURM_PROCID", "0")) == 0
    return int(environment.get("LOCAL_RANK", "0")) == 0 and int(environment.get("NODE_RANK", "0")) == 0


def end_with(message: str) -> NoReturn:
    """End this process with an error that all processes find, and that the first one says.

    A launcher ends the others as soon as one has ended, so these wait until the first has spoken.

    Args:
        message: what is wrong, for the person at the terminal.

    Raises:
        SystemExit: in every process, with the message in the first one and exit code 1 in all.
    """
    if not is_first_process():
        time.sleep(_SPEAK_S)
    sys.exit(message if is_first_process() else 1)


def _is_srun(environment: Mapping[str, str]) -> bool:
    """Whether ``srun`` started this process, by Lightning's own rule, so that both count the same processes."""
    return "SLURM_NTASKS" in environment and environment.get("SLURM_JOB_NAME") not in ("bash", "interactive")
