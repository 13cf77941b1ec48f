"""Prompts of a large data set: its rows in Arrow files of a cache, memory-mapped; a prompt is made when asked for.

The cache has a folder for each set of files, settings and version of the code that reads them. It holds the rows as
they were read, and an index of those that became prompts. A second start reads the index alone.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.prompt_columns import PromptTable, ids_of_keys, keys_of_ids
from ada_lightning.core.records import Prompt
from ada_lightning.data.prompt_builder import PromptBuilder
from ada_lightning.data.table_files import TableRows
from ada_lightning.training.models.cache import cache_root

INDEX = "index.arrow"


def folder_of(paths: Sequence[str], settings: object) -> Path:
    """Return the folder of the cache for some files, settings and this version of the code.

    Args:
        paths: files; another size or time of change is another content.
        settings: that decide what becomes of their rows, with a ``repr`` that says all of them.
    """
    files = [(str(Path(path).absolute()), (stat := Path(path).stat()).st_size, stat.st_mtime_ns) for path in paths]
    key = hashlib.sha256(repr((files, settings, _code())).encode()).hexdigest()[:24]
    return cache_root() / "prompts" / key


@lru_cache(maxsize=1)
def _code() -> str:
    """Checksum of the modules that make prompts of rows."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


class StoredPrompts(PromptTable):
    """Some or all prompts of a folder of the cache.

    Args:
        folder: that :mod:`~ada_lightning.data.prompt_store` filled.
        builder: makes prompts of rows.
        rows: of the index that are meant; None for all.
    """

    def __init__(self, folder: Path, builder: PromptBuilder, rows: NDArray[np.int64] | None = None) -> None:
        self._folder, self._builder = folder, builder
        self._index = mapped(folder / INDEX)
        self.rows = np.arange(self._index.num_rows) if rows is None else rows
        """Places in the index."""

    def only(self, kept: NDArray[np.bool_] | NDArray[np.int64]) -> StoredPrompts:
        """Return some of these prompts: a mask, or places among them in another order."""
        return StoredPrompts(self._folder, self._builder, self.rows[kept])

    def file_of(self, settings: object) -> Path:
        """Return the file of the cache for what is known of these very prompts under some settings."""
        key = hashlib.sha256(repr(settings).encode() + self.rows.tobytes()).hexdigest()[:24]
        return self._folder / f"checked-{key}.npy"

    def column(self, name: str) -> NDArray[Any]:
        """Return a column of the index: ``id_key``, ``text_key``, ``order_key`` or ``row``."""
        column: NDArray[Any] = self._index[name].to_numpy()
        return column[self.rows]

    @cached_property
    def ids(self) -> Sequence[str]:
        """Ids of all, in order."""
        return ids_of_keys(self.column("id_key"))

    @cached_property
    def _sorted_keys(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        keys = self.column("id_key")
        order = np.argsort(keys)
        return keys[order], order

    def positions(self, prompt_ids: Sequence[str]) -> NDArray[np.int64]:
        """Return where prompts stand; -1 for those that are not here."""
        keys, order = self._sorted_keys
        wanted, is_key = keys_of_ids(prompt_ids)
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(is_key & (keys[places] == wanted), order[places], -1)

    def tasks(self) -> Counter[str]:
        """Return how many prompts each task has."""
        encoded = self._index["task"].combine_chunks()
        codes = encoded.indices.to_numpy()[self.rows]
        names = encoded.dictionary.to_pylist()
        numbers, first, counts = np.unique(codes, return_index=True, return_counts=True)
        order = np.argsort(first)
        return Counter({names[numbers[place]]: int(counts[place]) for place in order})

    def row_of(self, prompt_id: str) -> int | None:
        """Return which row of the data a prompt is, counted over all files from 0; None where it is not here."""
        (place,) = self.positions([prompt_id]).tolist()
        return None if place < 0 else int(self._rows_read[self.rows[place]])

    def __len__(self) -> int:
        """Prompts there are."""
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> Prompt: ...
    @overload
    def __getitem__(self, place: slice) -> list[Prompt]: ...
    def __getitem__(self, place: int | slice) -> Prompt | list[Prompt]:
        """Make one prompt, or a list of them."""
        if isinstance(place, slice):
            return self.at(range(*place.indices(len(self))))
        return self.at([range(len(self))[place]])[0]

    def at(self, places: Sequence[int]) -> list[Prompt]:
        """Make the prompts at some places."""
        rows = self._rows_read[self.rows[np.asarray(places, dtype=np.int64)]]
        batches, starts = self._batches
        found: dict[int, Prompt] = {}
        builder = replace(self._builder)  # what it notes of a row is its own in each thread
        of_batch = np.searchsorted(starts, rows, side="right") - 1
        for number in np.unique(of_batch).tolist():
            these, batch = np.unique(rows[of_batch == number]), batches[number]
            is_text = (batch.schema.metadata or {}).get(b"rows") == b"json"
            made = TableRows(batch, "", 0).at((these - starts[number]).tolist())
            for row, (_, columns) in zip(these.tolist(), made, strict=True):
                found[row] = builder.build(json.loads(columns["row"]) if is_text else columns)
        return [found[row] for row in rows.tolist()]

    @cached_property
    def _rows_read(self) -> NDArray[np.int64]:
        rows: NDArray[np.int64] = self._index["row"].to_numpy()
        return rows

    @cached_property
    def _batches(self) -> tuple[list[Any], NDArray[np.int64]]:
        """The parts of the files of rows, and the first row of each."""
        files = sorted(self._folder.glob("rows-*.arrow"), key=lambda path: int(path.stem.partition("-")[2]))
        batches = [batch for file in files for batch in mapped(file).to_batches()]
        return batches, np.cumsum([0, *(batch.num_rows for batch in batches)])[:-1]


def mapped(path: Path) -> Any:
    """Return the table of an Arrow file, memory-mapped."""
    import pyarrow as pa

    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
