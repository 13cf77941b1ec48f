"""A run in Trackio: on this machine, or in a Space of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ada_lightning.run.flat import flat

from .tracker import Dashboard

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "prompt_id", "prompt", "sample_index", "reward", "is_kept", "advantage", "answer", "finish_reason", "num_tokens",
    "text",
)  # fmt: skip
"""Of the responses, what the table shows: Trackio keeps tables in its database, row by row."""


class TrackioTracking(Dashboard):
    """Logs to Trackio's database, by default on this machine: ``~/.cache/huggingface/trackio`` or ``TRACKIO_DIR``.

    Args:
        run_dir: folder of the run.
        run_name: name of the run in the dashboard; a resume continues the run of that name.
        project: Trackio project.
        group: runs that belong together; a sweep sets its name.
        space_id: Space to log to, ``organisation/name``; None keeps the run on this machine.

    Raises:
        ValueError: trackio is not installed.
    """

    tool, option, package = "Trackio", "trackio", "trackio"

    def __init__(
        self,
        *,
        run_dir: str | Path,
        run_name: str,
        project: str,
        group: str | None = None,
        space_id: str | None = None,
    ) -> None:
        super().__init__(run_dir=run_dir, run_name=run_name)
        self.project, self.group, self.space_id = project, group, space_id
        self._run: Any = None

    @property
    def how_to_open(self) -> str:
        """What a person does to see the run."""
        if self.space_id:
            return f"https://huggingface.co/spaces/{self.space_id}"
        return f"trackio show --project {self.project}"

    def open(self, settings: Mapping[str, Any], *, is_resumed: bool) -> None:
        """Start the run, or continue that of its name where this folder began one."""
        import trackio

        self._run = trackio.init(
            project=self.project,
            name=self.run_name.replace("/", "-"),  # it names a folder of Trackio's
            group=self.group,
            space_id=self.space_id,
            config=flat(settings),
            resume="allow" if is_resumed else "never",
            embed=False,
        )

    def write_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Log one row."""
        self._run.log(dict(metrics), step=step)

    def write_picture(self, name: str, path: Path, step: int) -> None:
        """Log a ``trackio.Image``."""
        import trackio

        self._run.log({name: trackio.Image(str(path))}, step=step)

    def write_responses(self, name: str, responses: pd.DataFrame, step: int) -> None:
        """Log a ``trackio.Table``."""
        import trackio

        shown = responses[list(COLUMNS)]
        self._run.log({name: trackio.Table(dataframe=shown.astype(object).where(shown.notna(), None))}, step=step)

    def write_text(self, name: str, text: str, step: int) -> None:
        """Log a ``trackio.Markdown``, whose lines stay as they are."""
        import trackio

        self._run.log({name: trackio.Markdown(f"```text\n{text}\n```")}, step=step)

    def close(self, *, is_failed: bool) -> None:
        """Finish the run, which waits until all of it is written."""
        import trackio

        trackio.finish()
