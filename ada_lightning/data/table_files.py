"""Rows of parquet and arrow files, each with the place it stands at."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ada_lightning.data.columns import StoredJson
from ada_lightning.data.text_files import Row

ROWS_AT_ONCE = 4000
"""Smaller parts take longer to read. Larger ones save little, and take memory."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table or batch of arrow, each with its place.

    What the schema calls JSON becomes :class:`~ada_lightning.data.columns.StoredJson`.
    """

    batch: Any
    what: str
    first: int
    """Rows before it."""

    def __len__(self) -> int:
        """Rows of it."""
        return int(self.batch.num_rows)

    def __iter__(self) -> Iterator[Row]:
        """Go through the rows."""
        return self.at(range(len(self)))

    def at(self, places: Sequence[int]) -> Iterator[Row]:
        """Go through some of the rows: the others are not made."""
        if not len(places):
            return
        of_json = [field for field in self.batch.schema if _holds_json(field.type)]
        part = self.batch if len(places) == len(self) else self.batch.take(np.array(places, dtype=np.int64))
        for place, columns in zip(places, part.to_pylist(), strict=True):
            for field in of_json:
                columns[field.name] = _marked(columns[field.name], field.type)
            yield f"{self.what}, row {self.first + place}", columns


def numbered(batches: Iterable[Any], what: str) -> Iterator[TableRows]:
    """Count the rows of tables or batches of arrow, from 0."""
    first = 0
    for batch in batches:
        yield TableRows(batch, what, first)
        first += batch.num_rows


def numbered_rows(batches: Iterable[Any], what: str) -> Iterator[Row]:
    """Yield the rows of tables or batches of arrow, counted from 0."""
    return chain.from_iterable(numbered(batches, what))


def read_parquet(path: Path, columns: Collection[str] | None = None) -> Iterator[TableRows]:
    """Yield a parquet file in parts: the columns that are named, where it has them, or all.

    Raises:
        ValueError: the file cannot be read.
    """
    return _read(path, columns, _parquet_batches)


def read_arrow(path: Path, columns: Collection[str] | None = None) -> Iterator[TableRows]:
    """Yield an arrow file in parts, streaming format (what ``datasets`` saves) or file format (feather).

    Arguments and errors are those of :func:`read_parquet`.
    """
    return _read(path, columns, _arrow_batches)


def _read(
    path: Path, columns: Collection[str] | None, batches: Callable[[Path, Collection[str] | None], Iterator[Any]]
) -> Iterator[TableRows]:
    import pyarrow

    try:
        yield from numbered(batches(path, columns), str(path))
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"cannot read prompts from {path} ({path.absolute()}): {error}") from error


def _holds_json(kind: Any) -> bool:
    import pyarrow

    inside = (kind.field(index).type for index in range(kind.num_fields))
    return isinstance(kind, pyarrow.JsonType) or any(map(_holds_json, inside))


def _marked(value: Any, kind: Any) -> Any:
    """Mark the texts inside of a value that its type calls JSON."""
    if value is None or not _holds_json(kind):
        return value
    if isinstance(value, str):
        return StoredJson(value)
    if isinstance(value, dict):
        return {name: _marked(item, kind.field(name).type) for name, item in value.items()}
    if isinstance(value, list):
        return [_marked(item, kind.field(0).type) for item in value]
    return value


def _parquet_batches(path: Path, columns: Collection[str] | None) -> Iterator[Any]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        yield from file.iter_batches(ROWS_AT_ONCE, columns=_present(file.schema_arrow, columns, path))


def _arrow_batches(path: Path, columns: Collection[str] | None) -> Iterator[Any]:
    import pyarrow

    with pyarrow.memory_map(str(path)) as file:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        reader = pyarrow.ipc.open_file(file) if is_file else pyarrow.ipc.open_stream(file)
        batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
        for batch in batches:
            yield batch.select(_present(batch.schema, columns, path))


def _present(schema: Any, columns: Collection[str] | None, path: Path) -> list[str]:
    if len(set(schema.names)) < len(schema.names):
        raise ValueError(f"{path}: column names must be unique; found {', '.join(schema.names)}")
    return [name for name in schema.names if columns is None or name in columns]
