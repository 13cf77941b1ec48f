"""Before anything starts: what this run's update really optimises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from ada_lightning.analysis.statement import describe_update
from ada_lightning.core.protocols import FollowUp, Refill, Sampler, Selection
from ada_lightning.methods.hints import NoHints
from ada_lightning.methods.refill import NoRefill
from ada_lightning.run.files import write_text

from .run_parts import run_parts

FILE = "objective.txt"
"""Name in the run folder: trackers show it, and the card of exported weights quotes it."""


class ObjectiveStatement(Callback):
    """Prints :func:`~ada_lightning.analysis.statement.describe_update` once, before the engine starts.

    Its arguments are the run's; ``truncated`` is ``rollout.truncated``, ``max_staleness`` ``rollout.max_staleness``.
    Where ``run_dir`` is given, ``objective.txt`` in it says the same from the first update on: what is refused before
    leaves a run's folder as it was.
    """

    def __init__(
        self,
        *,
        sampler: Sampler,
        selection: Selection,
        truncated: str,
        refill: Refill = NoRefill(),  # noqa: B008 - holds no state
        hints: FollowUp = NoHints(),  # noqa: B008 - holds no state
        max_staleness: int = 0,
        run_dir: str | Path | None = None,
    ) -> None:
        self.sampler = sampler
        self.selection = selection
        self.truncated = truncated
        self.refill, self.hints = refill, hints
        self.max_staleness = max_staleness
        self.run_dir = None if run_dir is None else Path(run_dir)
        self._unwritten = ""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Print. What a resumed run remembers is not restored yet, so it says the same as the fresh run did."""
        if not trainer.is_global_zero:
            return
        policy, data = run_parts(trainer, pl_module)
        lines = describe_update(
            advantage=policy.advantage,
            sampler=self.sampler,
            selection=self.selection,
            loss=policy.loss,
            num_minibatches=data.num_minibatches,
            epochs_per_rollout=data.epochs_per_rollout,
            max_grad_norm=policy.max_grad_norm,
            truncated=self.truncated,
            curriculum=data.curriculum,
            token_masks=policy.token_masks,
            refill=self.refill,
            hints=self.hints,
            max_staleness=self.max_staleness,
        )
        print("\n".join(lines), flush=True)
        self._unwritten = "\n".join(lines) + "\n"

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Keep it in the run folder, once."""
        if self.run_dir is not None and self._unwritten:
            write_text(self.run_dir / FILE, self._unwritten)
            self._unwritten = ""
