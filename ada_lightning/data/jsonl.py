"""Prompts from a file with one JSON object a line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ada_lightning.data.dataset import DatasetSource
from ada_lightning.data.prompts import SLOT
from ada_lightning.data.text_files import read_jsonl


class JsonlSource(DatasetSource):
    """A :class:`~ada_lightning.data.dataset.DatasetSource` of JSON lines that takes no line it cannot use.

    Columns are named, not recognised; lines without prompt or answer are an error, with their numbers. Empty lines
    are skipped. The arguments are those of the class above; the file is read as UTF-8 whatever it is called.

    Raises:
        ValueError: a negative count, one column for both, or a template without ``{prompt}``.
    """

    _kinds_of_rows = "one JSON object a line"

    def __init__(
        self,
        path: str | Path,
        *,
        num_heldout: int,
        seed: int,
        prompt_column: str = "prompt",
        answer_column: str = "answer",
        heldout_path: str | Path | None = None,
        system_prompt: str | None = None,
        prompt_template: str = SLOT,
    ) -> None:
        super().__init__(
            path,
            num_heldout=num_heldout,
            seed=seed,
            heldout_path=heldout_path,
            prompt_column=prompt_column,
            answer_column=answer_column,
            task="jsonl",
            skip_invalid=False,
            system_prompt=system_prompt,
            prompt_template=prompt_template,
        )

    def _reader(self, path: Any, name: str | None, revision: str | None, split: str) -> Any:
        return SimpleNamespace(origin=str(path), rows=lambda columns=None: read_jsonl(Path(path)))
