"""Prompts from a file with one JSON object a line."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ada_lightning.data.dataset import DatasetSource
from ada_lightning.data.prompts import SLOT
from ada_lightning.data.text_files import Row, read_jsonl


class JsonlSource(DatasetSource):
    """A :class:`~ada_lightning.data.dataset.DatasetSource` of JSON lines that takes no line it cannot use.

    Columns are named, not recognised; lines without prompt or answer are an error, with their numbers. Empty lines
    are skipped.

    Args:
        path: JSON-lines file, read as UTF-8; relative to where the program runs.
        num_heldout: prompts held out: of ``heldout_path`` where it is given, else of ``path``; 0 for none.
        seed: of the choice of held-out prompts.
        prompt_column: key of the prompt's text, or of its list of messages.
        answer_column: key of the answer: text or a number.
        heldout_path: file of its own for held-out prompts; None takes them from ``path``. Training prompts that occur
            in it are dropped, counted and warned about.
        system_prompt: first turn of every prompt; None for none.
        prompt_template: the user's turn, with ``{prompt}`` where the text goes; other braces mean themselves.

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
        return _JsonlReader(Path(path))


class _JsonlReader:
    """JSON lines whatever the file is called."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def origin(self) -> str:
        return str(self.path)

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row]:
        return read_jsonl(self.path)
