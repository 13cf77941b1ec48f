"""The environment variables of a process that an engine has for itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from ada_lightning.run.machine import num_cores

# fmt: off
_OF_THE_TRAINER = frozenset(
    (
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
        "ROLE_NAME", "ROLE_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "PL_GLOBAL_SEED",
        "LD_PRELOAD", "KMP_AFFINITY",  # vLLM writes these two in the process it runs in, for its own workers
    )
)
"""Who the trainer is among the training processes, which vLLM would take for its own place, and vLLM's own traces."""
# fmt: on


def engine_environment(num_threads: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment without what belongs to the trainer.

    Args:
        num_threads: CPU threads of the engine; 0: all cores. torch reads them once, at import, and torchrun sets one.
        environment: further variables, which overrule the rest.
    """
    return {
        **{name: value for name, value in os.environ.items() if not _is_of_the_trainer(name)},
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "OMP_NUM_THREADS": str(num_threads or num_cores()),
        **{str(name): str(value) for name, value in environment.items()},
    }


def enter_engine_environment(num_threads: int, environment: Mapping[str, str]) -> None:
    """Make :func:`engine_environment` that of this process, which somebody else started, before torch is imported."""
    variables = engine_environment(num_threads, environment)
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)


def _is_of_the_trainer(name: str) -> bool:
    return name in _OF_THE_TRAINER or name.startswith("TORCHELASTIC_")
