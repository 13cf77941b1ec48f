"""Rows of data sets of the Hugging Face hub and of folders in their formats."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ada_lightning.data.table_files import ROWS_AT_ONCE, TableRows, numbered_rows, read_arrow, read_parquet
from ada_lightning.data.text_files import Row, parsed_line, read_csv, read_json, read_jsonl

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
    return chain.from_iterable(file_batches(path, columns))


def file_batches(path: Path, columns: Collection[str] | None = None) -> Iterator[TableRows | Sequence[Row]]:
    """Yield the same in parts of :data:`~ada_lightning.data.table_files.ROWS_AT_ONCE`, tables as such.

    Raises:
        ValueError: it is of no kind that can be read, or cannot be read.
    """
    suffix = kind_of_file(path)
    if suffix in _TABLE_READERS:
        yield from _TABLE_READERS[suffix](path, columns)
    elif suffix in _TEXT_READERS:
        rows = _TEXT_READERS[suffix](path)
        while part := list(islice(rows, ROWS_AT_ONCE)):
            yield part
    else:
        raise ValueError(f"{path}: files that end in {', '.join(SUFFIXES)} can be read; name it after its kind")


_BYTES_A_ROW = 100


def about_rows(path: Path) -> int:
    """Return how many rows a parquet file says it has, and guess at others from their size; 0 for none to be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if kind_of_file(path) == ".parquet":
            return int(pq.read_metadata(path).num_rows)
        return path.stat().st_size // _BYTES_A_ROW
    except (OSError, pa.ArrowException):
        return 0  # who reads it says what is wrong


_SAVED = ("state.json", "dataset_dict.json")
"""What ``save_to_disk`` leaves in a folder, of a data set and of several splits."""
_PLAIN = ("JsonConfig", "CsvConfig", "ParquetConfig", "ArrowConfig")


def read_dataset(
    path: str, *, name: str | None, revision: str | None, split: str, columns: Collection[str] | None = None
) -> Iterator[Row]:
    """Yield the rows of one split, counted from 0, as plain values: images and audio are not decoded.

    Arguments are those of :class:`~ada_lightning.data.reading.RowReader`. A folder is one saved by ``save_to_disk``, of
    whose splits there are no slices, or one that holds the files of a data set as a repository of the hub does. The
    files of a folder are read as they stand; data sets of the hub have the types that ``datasets`` gives them.

    Raises:
        ValueError: there is no such data set, configuration or split, it cannot be read, or the hub cannot be reached.
    """
    import datasets  # costs seconds: only those who need it wait for it

    datasets.disable_progress_bars()
    what = f"{path} (name={name}, split={split})" if name else f"{path} (split={split})"
    try:
        rows = _rows_of_files(path, name, split, columns)
        if rows is None:
            if (dataset := _saved(Path(path), split)) is None:  # one without rows is false
                dataset = datasets.load_dataset(path, name, revision=revision, split=split)
            if columns is not None:
                dataset = dataset.select_columns([column for column in dataset.column_names if column in columns])
            rows = numbered_rows(dataset.with_format("arrow").iter(ROWS_AT_ONCE), what)
    except Exception as error:  # a hub, a file system and a dozen readers raise all kinds
        raise ValueError(_explained(what, path, error)) from error
    yield from rows


def _rows_of_files(path: str, name: str | None, split: str, columns: Collection[str] | None) -> Iterator[Row] | None:
    """Read a folder's files as they stand, without the types that ``datasets`` gives to what is in them.

    Returns:
        The rows; None where it is no folder, was left by ``save_to_disk``, holds files of other kinds, or says how its
        files are to be read.
    """
    import datasets

    folder = Path(path)
    if not folder.is_dir() or any((folder / left).exists() for left in _SAVED):
        return None
    with tempfile.TemporaryDirectory() as unused:  # of what is read here nothing is kept
        config = datasets.load_dataset_builder(path, name, cache_dir=unused).config
    files = {str(key): [Path(file) for file in found] for key, found in (config.data_files or {}).items()}
    every = [file for found in files.values() for file in found]
    is_ours = all(kind_of_file(file) in SUFFIXES and file.is_file() for file in every)  # others may lie elsewhere
    if not every or not is_ours or not _is_plain(config):
        return None

    def read(key: str) -> Iterator[Row]:
        return chain.from_iterable(read_file(file, columns) for file in files[key])

    if split in files:
        return read(split)
    if split == "all":
        return chain.from_iterable(map(read, files))
    parts = datasets.ReadInstruction.from_spec(split).to_absolute(_Lengths(files, read))
    return chain.from_iterable(islice(read(part.splitname), part.from_, part.to) for part in parts)


_LINES = "text"
_STREAMED = {".jsonl": _LINES, ".ndjson": _LINES, ".json": "json", ".parquet": "parquet", ".arrow": "arrow"}
"""How ``datasets`` reads each kind of file row by row. It reads JSON lines as plain lines, which are parsed here: its
own JSON reader has other values than :func:`read_file`, such as times for texts that look like dates."""


def streamed_rows(dataset: Any, files: Sequence[Path | str]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of what :func:`stream_dataset` returned for some files, or for none.

    Raises:
        ValueError: a line is no JSON object.
    """
    rows = (columns for _, columns in numbered_rows(dataset.iter(1), ""))
    if not files or _reader_of(files) != _LINES:
        return rows
    lines = (columns["text"].removeprefix("\ufeff") for columns in rows)
    return (parsed_line(line, "this line")[1] for line in lines if line.strip())


def stream_dataset(
    path: str,
    *,
    name: str | None,
    revision: str | None,
    split: str,
    files: Sequence[Path | str] = (),
    shuffle_buffer: int = 0,
    seed: int = 0,
) -> Any:
    """Return a data set that is read while it is iterated over (``datasets.IterableDataset``), a table of one row each.

    Arguments are those of :class:`~ada_lightning.data.reading.RowReader`, and ``files`` where it names some, here or by
    their addresses. A ``shuffle_buffer`` above 0 shuffles as ``datasets`` does: files, and rows within a buffer of so
    many, by the seed.

    Raises:
        ValueError: as :func:`read_dataset`; or files of several kinds, or of one that is not read in this way.
    """
    import datasets

    kinds = set(map(_kind_of, files))
    if kinds - set(_STREAMED) or len({_STREAMED[kind] for kind in kinds}) > 1:
        raise ValueError(
            f"a stream reads files of one kind, which end in {', '.join(_STREAMED)}; found {', '.join(sorted(kinds))}; "
            "data=dataset reads others, and several kinds"
        )
    datasets.disable_progress_bars()
    what = f"{path} (split={split})"
    try:
        if files:
            given = [str(file) for file in files]
            dataset = datasets.load_dataset(_reader_of(files), data_files=given, split="train", streaming=True)
        elif (saved := _saved(Path(path), split)) is not None:
            dataset = saved.to_iterable_dataset()
        else:
            dataset = datasets.load_dataset(path, name, revision=revision, split=split, streaming=True)
        if shuffle_buffer:
            dataset = dataset.shuffle(seed=seed, buffer_size=shuffle_buffer)
        return dataset.with_format("arrow")
    except Exception as error:  # as in read_dataset
        raise ValueError(_explained(what, path, error)) from error


def _kind_of(file: Path | str) -> str:
    return kind_of_file(Path(urlsplit(str(file)).path))


def _reader_of(files: Sequence[Path | str]) -> str:
    kind = _STREAMED[_kind_of(files[0])]
    # findings/datasets_streams_no_text_by_http.sh: datasets cannot read lines from an address.
    return "json" if kind == _LINES and "://" in str(files[0]) else kind


class _Lengths(Mapping[str, int]):
    """Number of rows by split, counted where a slice asks."""

    def __init__(self, files: Collection[str], read: Callable[[str], Iterator[Row]]) -> None:
        self._files, self._read = files, read

    def __getitem__(self, split: str) -> int:
        return sum(1 for _ in self._read(split))

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _is_plain(config: Any) -> bool:
    """Whether nothing says how the files are to be read."""
    if not hasattr(config, "data_files") or type(config).__name__ not in _PLAIN:
        return False
    taken = {key: getattr(config, key) for key in ("name", "version", "data_dir", "data_files", "description")}
    if getattr(config, "sep", ",") == "\t":  # of .tsv files
        taken["sep"] = "\t"
    return bool(type(config)(**taken) == config)


def _saved(folder: Path, split: str) -> Any:
    """Return what ``save_to_disk`` left in the folder; None where it is no such folder."""
    import datasets

    if (folder / _SAVED[0]).exists():
        if split != "train":
            raise ValueError(f"Unknown split {split!r}: the folder holds one data set without splits; leave it out")
        return datasets.load_from_disk(folder)
    if (folder / _SAVED[1]).exists():
        splits = datasets.load_from_disk(folder)
        if split not in splits:
            raise ValueError(f"Unknown split {split!r}. Should be one of {list(splits)}.")
        return splits[split]
    return None


def _explained(what: str, path: str, error: Exception) -> str:
    cause = error.__cause__ if type(error).__name__ == "DatasetGenerationError" and error.__cause__ else error
    message = f"cannot read the data set {what}: {type(cause).__name__}: {cause}"
    if "://" in path:
        return f"{message}. Open the address from this machine to see whether it is there"
    is_local = Path(path).exists()
    if not is_local and isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        return (
            f"{message}. Without the hub: download the data set where there is a network (hf download {path} "
            "--repo-type dataset --local-dir <folder>) and set data.source.path to that folder or to a file in it. If "
            f"{path} is meant to be a folder: there is none at {Path(path).absolute()}"
        )
    if type(error).__name__ == "DatasetNotFoundError":
        return f"{message}. If it is meant to be a folder: there is none at {Path(path).absolute()}"
    if "split" in str(error):
        return f"{message}; set data.source.split (or heldout_split)"
    if "BuilderConfig" in str(error) or "Config name is missing" in str(error):
        return f"{message}; set data.source.name to one of its configurations"
    globs = Counter(
        f"{file.parent}/*{kind}*" for file in Path(path).rglob("*") if (kind := kind_of_file(file)) in SUFFIXES
    )
    for files, _ in globs.most_common(1):
        return f"{message}. A glob (data.source.path={files}) reads files one by one and names the row"
    return message
