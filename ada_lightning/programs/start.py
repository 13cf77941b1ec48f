"""Starts every program, and turns failures into one line for the user.

Imports at the top are light: reward workers import the program's file again, and a wrong command line must get its
answer without waiting for torch.
"""

from __future__ import annotations

import ada_lightning.run.interrupted_start  # noqa: F401 - first: from here on Ctrl-C is no traceback

# isort: split
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig

from ada_lightning.config.choices import register_choices
from ada_lightning.config.generated import CONFIG_DIR
from ada_lightning.parallel.environment import end_with, is_first_process
from ada_lightning.rollout.engines.errors import EngineError
from ada_lightning.run.credentials import take_from_start
from ada_lightning.run.machine import SPIN_COUNT, num_cores
from ada_lightning.run.stopping import RunStoppedError, SamplingStoppedError

# torch reads the number of threads once, at import; where it is not set, vLLM cuts the whole process, training
# included, to one.
os.environ.setdefault("OMP_NUM_THREADS", str(num_cores()))
# Threads that wait spin for some microseconds, then sleep. With other busy processes, threads that go on spinning keep
# the one thread from its core that all of them wait for. Threads that sleep at once are woken late even alone
# (docs/performance.md, "On a busy machine"). Read once, as OpenMP is loaded.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
register_choices(CONFIG_DIR)

_PRINTS = {"--help", "-h", "--hydra-help", "--cfg", "-c", "--info", "-i", "--version"}
"""Options of Hydra with which a program prints something and does nothing else."""


def begin(argv: Sequence[str], program: str, expand: Callable[[list[str]], list[str]] = list) -> list[str]:
    """Make the process ready, and end it where Hydra could not compose what the command line asks for.

    Args:
        argv: command line without the program's name.
        program: name of its primary config.
        expand: writes out what an argument implies; raises ValueError.

    Returns:
        The command line for Hydra, without passwords of tracking stores.
    """
    from ada_lightning.config.overrides import folders_of_ones_own, options_first, override_errors
    from ada_lightning.methods.catalog import add_own
    from ada_lightning.run.scratch import use_own_scratch
    from ada_lightning.run.terminal import plain_warnings

    if _PRINTS.intersection(argument.partition("=")[0] for argument in argv):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ``--help | head`` ends quietly, as with any program
    plain_warnings()
    use_own_scratch()
    try:
        arguments = options_first(expand(take_from_start(argv)))
    except ValueError as error:
        sys.exit(f"error: {error}")
    for folder in folders_of_ones_own(arguments):
        try:
            add_own(folder)
        except (ImportError, LookupError, TypeError, ValueError) as error:
            sys.exit(f"error: --config-dir {folder}: {error}")
    if errors := override_errors(arguments, CONFIG_DIR, program):
        end_with("\n".join(f"error: {error}" for error in errors))
    return arguments


def begin_to_read(data: DictConfig) -> None:
    """Have a large data set read while torch is imported; what is wrong with it the check says."""
    from ada_lightning.data.dataset import DatasetSource
    from ada_lightning.data.read_ahead import read_ahead

    with suppress(Exception):
        if is_first_process() and data.source._target_ == f"{DatasetSource.__module__}.{DatasetSource.__name__}":
            read_ahead(instantiate(data.source))


UNREAD_TEXT = "stopped: the program that read this output has ended; write the output to a file instead"


@contextmanager
def failures_in_a_line(folder: Path, *, stopped_code: int | None = None) -> Iterator[None]:
    """End the process with one line if the work inside fails by something that the user can mend.

    The engine's log is in ``folder``; ``stopped_code`` is the exit code after a signal, or else that of a failure.
    """
    from ada_lightning.run.doctor import explain_broken_install
    from ada_lightning.run.terminal import until_nobody_reads

    try:
        with until_nobody_reads(UNREAD_TEXT):
            yield
    except SamplingStoppedError as stop:
        print(stop, file=sys.stderr)
        sys.exit(stopped_code or 1)
    except EngineError as error:
        sys.exit(f"error: {error.for_people(folder)}")
    except RunStoppedError as error:
        sys.exit(f"stopped: {error}")
    except ValueError as error:
        sys.exit(f"error: {error}")
    except ImportError as error:
        sys.exit(explain_broken_install(error) or f"error: {type(error).__name__}: {error}")
