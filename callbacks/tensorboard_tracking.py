"""A run in TensorBoard: scalars, settings, pictures, and responses to read."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ada_lightning.run.flat import flat
from ada_lightning.run.metrics_file import read_metrics

from .response_log import shown_slots
from .tracker import Dashboard

if TYPE_CHECKING:
    import pandas as pd
    from torch.utils.tensorboard import SummaryWriter

FOLDER = "tensorboard"
"""Name in the run folder."""
SHOWN_PROMPTS = 4
"""Prompts of a step in the tab of texts."""
SHOWN_RESPONSES = 8
"""Responses to each of them."""
SHOWN_CHARACTERS = 2000
"""Of a prompt or a response; more fill the tab and nobody reads them."""


class TensorBoardTracking(Dashboard):
    """Writes event files into ``tensorboard/`` of the run folder, so that ``tensorboard --logdir runs`` compares runs.

    Settings are hyperparameters (tab HPARAMS), plots are images, responses and the objective are texts. A resume marks
    the events of the steps that it repeats as overwritten, and TensorBoard hides them.

    Args:
        run_dir: folder of the run.
        run_name: name of the run; TensorBoard shows the folder's instead.

    Raises:
        ValueError: TensorBoard is not installed.
    """

    tool, option, package = "TensorBoard", "tensorboard", "tensorboard"

    def __init__(self, *, run_dir: str | Path, run_name: str) -> None:
        super().__init__(run_dir=run_dir, run_name=run_name)
        self._writer: SummaryWriter | None = None
        self._settings: dict[str, Any] = {}
        self._is_resumed = False

    @property
    def how_to_open(self) -> str:
        """What a person does to see the run."""
        return f"tensorboard --logdir {self.run_dir.path.parent}"

    def open(self, settings: Mapping[str, Any], *, is_resumed: bool) -> None:
        """Note what the event file begins with: which step it begins at says the first figure."""
        self._settings, self._is_resumed = flat(settings), is_resumed

    def write_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Add scalars."""
        writer = self._open_writer(step)
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    def write_picture(self, name: str, path: Path, step: int) -> None:
        """Add an image."""
        import numpy as np
        from PIL import Image

        with Image.open(path) as image:
            self._open_writer(step).add_image(name, np.asarray(image.convert("RGB")), step, dataformats="HWC")

    def write_responses(self, name: str, responses: pd.DataFrame, step: int) -> None:
        """Add the responses to some prompts as one text."""
        self._open_writer(step).add_text(name, "\n\n".join(_markdown(responses)), step)

    def write_text(self, name: str, text: str, step: int) -> None:
        """Add a text."""
        self._open_writer(step).add_text(name, _as_it_is(text), step)

    def close(self, *, is_failed: bool) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _open_writer(self, step: int) -> SummaryWriter:
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter
            from torch.utils.tensorboard.summary import hparams

            folder = self.run_dir.path / FOLDER
            self._writer = SummaryWriter(str(folder), purge_step=step if self._is_resumed else None)
            if self._settings:
                values = {
                    key: value if isinstance(value, bool | int | float) else str(value)
                    for key, value in self._settings.items()
                }
                file: Any = self._writer.file_writer
                for summary in hparams(values, {}):  # add_hparams would make a second run of it
                    file.add_summary(summary)
            if self._is_resumed:  # an evaluation before the checkpoint has the first repeated step's number
                rows = read_metrics(self.run_dir.metrics_csv)
                for name, value in next((row for row in rows if row["step"] == step), {}).items():
                    if name.startswith("eval"):
                        self._writer.add_scalar(name, value, step)
        return self._writer


def _markdown(responses: pd.DataFrame) -> Iterator[str]:
    """Spell prompts with their responses; text of a model is indented, so that nothing in it is taken for markup."""
    for slot in shown_slots(responses, SHOWN_PROMPTS):
        group = responses[responses["slot"] == slot]
        yield f"### Prompt {group['prompt_id'].iloc[0]}"
        yield _as_it_is(group["prompt"].iloc[0])
        for row in group.head(SHOWN_RESPONSES).itertuples():
            advantage = "" if row.advantage is None or row.advantage != row.advantage else f", {row.advantage:+.3g}"
            yield f"**reward {row.reward:g}**, {row.num_tokens} tokens, {row.finish_reason}{advantage}"
            yield _as_it_is(row.text)


def _as_it_is(text: str) -> str:
    return textwrap.indent(text[:SHOWN_CHARACTERS], "    ", lambda line: True)
