"""Where a run's engine lives: ``rollout.host``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from ada_lightning.core.protocols import RolloutEngine


@runtime_checkable
class EngineHost(Protocol):
    """Opens engines in a place of its own. It may also have ``check()``, which raises ValueError before a model loads.

    The engine's own settings stay in ``rollout.engine`` wherever it lives.
    """

    def open(self, engine: Callable[..., RolloutEngine], log_file: Path) -> RolloutEngine:
        """Open an engine there.

        Args:
            engine: makes the real engine from ``log_file``; pickled where it is made in another process.
            log_file: of the run. Several engines write into files of their own beside it.
        """
        ...


@dataclass(frozen=True, slots=True)
class TrainerProcess:
    """The trainer's own process: the quickest to start, and nothing is copied. One training process only."""

    def open(self, engine: Callable[..., RolloutEngine], log_file: Path) -> RolloutEngine:
        """Open the engine here."""
        return engine(log_file=log_file)
