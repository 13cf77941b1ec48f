"""Reads the rows of a data set: files, globs, folders or names on the hub."""

from __future__ import annotations

import glob
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path

from ada_lightning.data.hub import SUFFIXES, about_rows, file_batches, kind_of_file, read_dataset
from ada_lightning.data.table_files import TableRows
from ada_lightning.data.text_files import Row


class RowReader:
    """Reads the rows of one data set.

    A path is local if a file or folder of that name exists, if it holds ``*``, ``?`` or ``[``, if it ends like a file
    of a known kind, or if it cannot be a name on the hub. Otherwise it names a data set of the hub. Files are read one
    by one in the order given (globs: sorted) and their rows can be named in messages. ``datasets`` says which files of
    a folder belong to a split, and reads the hub.

    Args:
        path: name on the hub, folder, file (``.jsonl``, ``.json``, ``.csv``, ``.tsv``, these also with ``.gz``;
            ``.parquet``, ``.arrow``, ``.feather``) or glob of files; or a list of files and globs.
        name: configuration of a data set of the hub or a folder; None for its only or default one.
        revision: branch, tag or commit on the hub; None for the newest.
        split: of the hub or a folder.
        split_setting: what a message calls it.

    Raises:
        ValueError: no path, or a setting that files do not have.
    """

    def __init__(
        self,
        path: str | Path | Sequence[str],
        *,
        name: str | None,
        revision: str | None,
        split: str,
        split_setting: str = "split",
    ) -> None:
        paths = [str(path)] if isinstance(path, (str, Path)) else [str(item) for item in path]
        if not paths or "" in paths:
            raise ValueError(f"data.source.path is empty; name a data set of the hub, a folder or files; got {path!r}")
        self.paths = [str(Path(item).expanduser()) if item.startswith("~") else item for item in paths]
        self.name, self.revision, self.split = name, revision, split
        self.is_files = len(self.paths) > 1 or _names_files(self.paths[0])
        if self.is_files:
            for setting, value in (("name", name), ("revision", revision), (split_setting, split)):
                if value not in (None, "train"):
                    raise ValueError(
                        f"data.source.{setting} = {value!r} belongs to data sets of the hub and to folders, and "
                        f"{self.origin} is a file; leave it out"
                    )

    @property
    def origin(self) -> str:
        """What is read, for messages and reports."""
        if self.is_files:
            return ", ".join(self.paths)
        details = [f"{key}={value}" for key, value in (("name", self.name), ("revision", self.revision)) if value]
        return f"{self.paths[0]} ({', '.join([*details, f'split={self.split}'])})"

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row]:
        """Yield every row; ``columns`` spares the reader others, where the format allows it.

        Raises:
            ValueError: something cannot be read.
        """
        if not self.is_files:
            yield from read_dataset(
                self.paths[0], name=self.name, revision=self.revision, split=self.split, columns=columns
            )
            return
        yield from chain.from_iterable(self.batches(columns))

    @property
    def files(self) -> list[Path]:
        """The files, where it reads files."""
        return [file for item in self.paths for file in _expanded(item)] if self.is_files else []

    def batches(self, columns: Collection[str] | None = None) -> Iterator[TableRows | Sequence[Row]]:
        """Yield the rows of files in parts.

        Raises:
            ValueError: something cannot be read.
        """
        for path in self.files:
            yield from file_batches(path, columns)

    def about_rows(self) -> int:
        """Return about how many rows the files have, without reading them."""
        return sum(map(about_rows, self.files))


def _names_files(path: str) -> bool:
    local = Path(path)
    if local.is_dir():
        return False
    could_be_on_the_hub = path.count("/") <= 1 and not local.is_absolute() and not path.startswith(".")
    return local.exists() or glob.has_magic(path) or kind_of_file(local) in SUFFIXES or not could_be_on_the_hub


def _expanded(path: str) -> list[Path]:
    if not glob.has_magic(path) or Path(path).exists():
        if Path(path).is_dir():
            raise ValueError(f"{path} is a folder among files; use a glob such as {path}/*.parquet")
        return [Path(path)]
    found = [Path(item) for item in sorted(glob.glob(path, recursive=True)) if Path(item).is_file()]
    if not found:
        raise ValueError(f"no file matches data.source.path = {path} (in {Path().absolute()})")
    return found
