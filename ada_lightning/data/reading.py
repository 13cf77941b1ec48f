"""Reads the rows of a data set: files, globs, folders or names on the hub."""

from __future__ import annotations

import glob
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path

from ada_lightning.data.hub import SUFFIXES, about_rows, file_batches, kind_of_file, read_dataset
from ada_lightning.data.table_files import TableRows
from ada_lightning.data.text_files import Row

_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_PAGE_OF_THE_HUB = re.compile(r"https?://huggingface\.co/datasets/([^/?#]+/[^/?#]+)/?(?:[?#].*|viewer.*|tree/main/?)?")


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
        takes_addresses: whether paths may be ``https://...`` or another address that ``datasets`` streams from.

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
        takes_addresses: bool = False,
    ) -> None:
        paths = [str(path)] if isinstance(path, (str, Path)) else [str(item) for item in path]
        if not paths or "" in paths:
            raise ValueError(f"data.source.path is empty; name a data set of the hub, a folder or files; got {path!r}")
        self.paths = [str(Path(item).expanduser()) if item.startswith("~") else item for item in paths]
        self.name, self.revision, self.split = name, revision, split
        self.addresses = [item for item in self.paths if _ADDRESS.match(item)]
        """Files elsewhere, of a reader that takes them."""
        for page in filter(None, map(_PAGE_OF_THE_HUB.fullmatch, self.addresses)):
            raise ValueError(f"{page[0]} is the page of a data set: give its name, data.source.path={page[1]}")
        if self.addresses and not takes_addresses:
            raise ValueError(
                f"{self.addresses[0]} is an address, and files are read from a disk: download it, and name the file or "
                "its folder; or read it row by row with data=streaming data.source.path=<address>"
            )
        if 0 < len(self.addresses) < len(self.paths):
            raise ValueError("data.source.path names addresses and files of this machine; give one kind alone")
        self.is_files = len(self.paths) > 1 or bool(self.addresses) or _names_files(self.paths[0])
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
        """The files, where it reads files of this machine."""
        if self.addresses or not self.is_files:
            return []
        return [file for item in self.paths for file in _expanded(item)]

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
