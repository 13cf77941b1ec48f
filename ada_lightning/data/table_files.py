"""Rows of parquet and arrow files, each with the place it stands at."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ada_lightning.data.text_files import Row

_ROWS_AT_ONCE = 1000


def read_parquet(path: Path, columns: Collection[str] | None = None) -> Iterator[Row]:
    """Yield the rows of a parquet file, counted from 0.

    Args:
        path: the file.
        columns: those to read, where the file has them; None reads all.

    Raises:
        ValueError: the file cannot be read.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = None if columns is None else [name for name in file.schema_arrow.names if name in columns]
            yield from _rows(file.iter_batches(_ROWS_AT_ONCE, columns=names), path)
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"cannot read prompts from {path} ({path.absolute()}): {error}") from error


def read_arrow(path: Path, columns: Collection[str] | None = None) -> Iterator[Row]:
    """Yield the rows of an arrow file, streaming format (what ``datasets`` saves) or file format (feather).

    Args:
        path: the file.
        columns: those to read, where the file has them; None reads all.

    Raises:
        ValueError: the file cannot be read.
    """
    import pyarrow

    try:
        with pyarrow.memory_map(str(path)) as file:
            batches = _arrow_batches(file)
            first = next(batches, None)
            if first is None:
                return
            names = first.schema.names if columns is None else [name for name in first.schema.names if name in columns]
            yield from _rows((batch.select(names) for batch in _chained(first, batches)), path)
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"cannot read prompts from {path} ({path.absolute()}): {error}") from error


def _arrow_batches(file: Any) -> Iterator[Any]:
    import pyarrow

    if file.read(6) == b"ARROW1":
        reader = pyarrow.ipc.open_file(file)
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)
    else:
        file.seek(0)
        yield from pyarrow.ipc.open_stream(file)


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _rows(batches: Iterator[Any], path: Path) -> Iterator[Row]:
    index = 0
    for batch in batches:
        for columns in batch.to_pylist():
            yield f"{path}, row {index}", columns
            index += 1
