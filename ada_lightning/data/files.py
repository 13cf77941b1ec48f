"""Rows of one file, by its kind."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from ada_lightning.data.table_files import read_arrow, read_parquet
from ada_lightning.data.text_files import Row, read_csv, read_json, read_jsonl

_TEXT_READERS = {".jsonl": read_jsonl, ".ndjson": read_jsonl, ".json": read_json, ".csv": read_csv, ".tsv": read_csv}
_TABLE_READERS = {".parquet": read_parquet, ".arrow": read_arrow, ".feather": read_arrow}
SUFFIXES = (*_TEXT_READERS, *_TABLE_READERS)
"""What can be read; texts also with ``.gz``."""


def kind_of_file(path: Path) -> str:
    """Return a file's suffix, without that of its compression."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


def read_file(path: Path, columns: Collection[str] | None = None) -> Iterator[Row]:
    """Yield the rows of a file; ``columns`` spares the reader others, where the format allows it.

    Raises:
        ValueError: it is of no kind that can be read, or cannot be read.
    """
    suffix = kind_of_file(path)
    if suffix in _TABLE_READERS:
        yield from _TABLE_READERS[suffix](path, columns)
    elif suffix in _TEXT_READERS:
        yield from _TEXT_READERS[suffix](path)
    else:
        raise ValueError(f"{path}: files that end in {', '.join(SUFFIXES)} can be read; name it after its kind")
