"""A run in Weights & Biases, online or in files that are synced later."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .tracker import Dashboard

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

STEP = "policy_updates"
"""What every chart is drawn over: W&B's own step counts calls, and refuses one that lies before the last."""
MODES = (None, "online", "offline")
"""Of ``wandb.init``; None leaves it to ``WANDB_MODE``."""


class WandbTracking(Dashboard):
    """Sends figures, plots, a ``wandb.Table`` of responses for each step that keeps them, and the page of samples.

    A server that cannot be reached, or that nobody has logged in to, is no reason to stop: the run is then written
    offline, below ``wandb/`` in its folder, and ``wandb sync`` sends it. What the terminal shows is not captured.

    Args:
        run_dir: folder of the run; it remembers the W&B run, so that a resume continues the same curves.
        run_name: name of the run in the UI.
        project: W&B project.
        entity: user or team; None for the default one of the account.
        group: runs that belong together; a sweep sets its name.
        mode: ``online`` or ``offline``; None leaves it to ``WANDB_MODE``.

    Raises:
        ValueError: wandb is not installed, or there is no such mode.
    """

    tool, option, package = "Weights & Biases", "wandb", "wandb"

    def __init__(
        self,
        *,
        run_dir: str | Path,
        run_name: str,
        project: str,
        entity: str | None = None,
        group: str | None = None,
        mode: Literal["online", "offline"] | None = None,
    ) -> None:
        super().__init__(run_dir=run_dir, run_name=run_name)
        if mode not in MODES:
            raise ValueError(f"logger.wandb.mode must be online, offline or null; got {mode}")
        self.project, self.entity, self.group, self.mode = project, entity, group, mode
        self._run: Any = None
        self._how_to_open = ""

    @property
    def how_to_open(self) -> str:
        """What a person does to see the run."""
        return self._how_to_open

    def open(self, settings: Mapping[str, Any], *, is_resumed: bool) -> None:
        """Start or continue the W&B run."""
        import wandb

        self.memory.setdefault("run_id", os.urandom(4).hex())
        options: dict[str, Any] = {
            "project": self.project,
            "entity": self.entity,
            "group": self.group,
            "name": self.run_name,
            "id": self.memory["run_id"],
            "dir": str(self.run_dir.path),
            "config": dict(settings),
            "resume": "allow",
            "reinit": "create_new",  # a sweep trains one run after another in this process
            "settings": wandb.Settings(console="off"),
        }
        try:
            self._run = wandb.init(mode=self.mode, **options)
        except wandb.Error as error:  # no network, no account
            if self.mode == "offline" or os.environ.get("WANDB_MODE") == "offline":
                raise
            log.warning("Weights & Biases cannot be reached (%s): this run is written offline", error)
            self._run = wandb.init(mode="offline", **options)
        self._run.define_metric("*", step_metric=STEP)
        folder = Path(self._run.dir).parent
        self._how_to_open = self._run.url or f"wandb sync {folder}"

    def write_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Log one row."""
        self._run.log({**metrics, STEP: step})

    def write_picture(self, name: str, path: Path, step: int) -> None:
        """Log a ``wandb.Image``."""
        import wandb

        self._run.log({name: wandb.Image(str(path)), STEP: step})

    def write_responses(self, name: str, responses: pd.DataFrame, step: int) -> None:
        """Log a ``wandb.Table``."""
        import wandb

        self._run.log({name: wandb.Table(dataframe=responses), STEP: step})

    def write_text(self, name: str, text: str, step: int) -> None:
        """Write the run's notes, which stand at the top of its page."""
        self._run.notes = self._run.notes or text  # a person's own, from WANDB_NOTES, stay

    def write_page(self, name: str, path: Path, step: int) -> None:
        """Log a ``wandb.Html``."""
        import wandb

        self._run.log({name: wandb.Html(path.read_text(encoding="utf-8"), inject=False), STEP: step})

    def close(self, *, is_failed: bool) -> None:
        """Finish the run, which waits until all of it is sent."""
        self._run.finish(exit_code=1 if is_failed else 0)
