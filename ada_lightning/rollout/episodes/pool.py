"""Answers turns in processes of their own, so that no environment can stall, crash or corrupt a run."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from ada_lightning.core.records import Verdict
from ada_lightning.rewards.pool import RewardPool
from ada_lightning.rollout.episodes import worker
from ada_lightning.rollout.episodes.worker import failed


class EnvironmentPool(RewardPool):
    """The pool of reward workers with another payload: a turn and the state of its environment.

    :meth:`submit` takes a :class:`~ada_lightning.rollout.episodes.worker.Call` in place of a completion, and
    :meth:`poll` and :meth:`wait` give each ticket's :class:`~ada_lightning.rollout.episodes.worker.Reply` once.
    Failures have the reasons of :mod:`ada_lightning.rewards.failures` behind ``environment_``, and besides
    ``invalid_reply`` and ``invalid_state``, each worth 0. An episode whose environment failed ends.

    Args:
        path: class of the environments, ``package.module.Class``; see
            :class:`~ada_lightning.core.protocols.environment.Environment`.
        arguments: of its constructor.
        role: whose turns its answers are.
        format: how turns become tokens, that of the prompts.
        max_turns: of the model in one episode.
        max_reply_chars: longest answer in characters; the rest is cut.
        num_workers: processes; also how many environments wait for something at once.
        time_limit_s: seconds for one answer.
        memory_limit_gb: of one worker, see :class:`~ada_lightning.rewards.pool.RewardPool`.
        output_file: where what environments print goes; None drops it.

    Raises:
        ValueError: a number is out of range, or ``path`` names no class.
    """

    setting = "environment"
    work: ClassVar[staticmethod[[bytes], tuple[Any, bool]]] = staticmethod(worker.act)

    def __init__(
        self,
        path: str,
        *,
        arguments: Mapping[str, Any] | None = None,
        role: Literal["user", "tool"] = "user",
        format: Any = None,
        max_turns: int = 8,
        max_reply_chars: int = 2000,
        num_workers: int = 1,
        time_limit_s: float = 10.0,
        memory_limit_gb: float | None = None,
        output_file: str | Path | None = None,
    ) -> None:
        for name, value in (("max_turns", max_turns), ("max_reply_chars", max_reply_chars)):
            if value < 1:
                raise ValueError(f"environment.{name} must be at least 1; got {value}")
        if role not in ("user", "tool"):
            raise ValueError(f"environment.role must be user or tool; got {role!r}")
        super().__init__(
            worker.EnvironmentClass(path, arguments or {}, max_reply_chars=max_reply_chars),  # type: ignore[arg-type]
            num_workers=num_workers,
            time_limit_s=time_limit_s,
            memory_limit_gb=memory_limit_gb,
            cache_size=0,
            output_file=output_file,
        )
        self.role, self.format, self.max_turns = role, format, max_turns

    def poll(self) -> list[tuple[Hashable, Any]]:
        """Return the replies since the last call; never blocks."""
        answers: list[tuple[Hashable, Any]] = list(super().poll())
        return [(ticket, failed(found) if isinstance(found, Verdict) else found) for ticket, found in answers]
