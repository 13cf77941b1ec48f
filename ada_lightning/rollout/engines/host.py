"""Where a run's engine lives: ``rollout.host``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ada_lightning.core.protocols import RolloutEngine


class EngineHost:
    """Opens engines in a place of its own. The engine's own settings stay in ``rollout.engine`` wherever it lives."""

    works_by_itself: ClassVar[bool] = False
    """Whether engines there decode while the trainer computes."""

    def check(self) -> None:
        """Raise ValueError for what is wrong with the place, before a model loads."""

    def open(self, engine: Callable[..., RolloutEngine], log_file: Path) -> RolloutEngine:
        """Open an engine there.

        Args:
            engine: makes the real engine from ``log_file``; pickled where it is made in another process.
            log_file: of the run. Several engines write into their own files next to it.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TrainerProcess(EngineHost):
    """The trainer's own process: the quickest to start, and nothing is copied. One training process only."""

    def open(self, engine: Callable[..., RolloutEngine], log_file: Path) -> RolloutEngine:
        """Open the engine here."""
        return engine(log_file=log_file)
