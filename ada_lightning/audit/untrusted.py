"""Reads files that anybody may have written: sizes are limited, and a refusal never quotes what was in them."""

from __future__ import annotations

import hashlib
import json
import math
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GIB = 2**30


class RefusedFileError(ValueError):
    """A file that the audit does not read; the text says which, why, and the way out."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a log may cost."""

    max_bytes: int = 4 * GIB
    """Of one file, as it lies on the disk and unpacked."""
    max_line_bytes: int = 64 * 2**20
    max_rows: int = 2_000_000
    """Responses in all."""


def checked(path: Path, limits: Limits) -> Path:
    """Return the path of a plain file that is not too large.

    Raises:
        RefusedFileError: it is a device, a pipe or a folder, or larger than ``limits.max_bytes``.
    """
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise RefusedFileError(f"{shown(path)} is not a plain file; give the files of a log or their folder")
    if about.st_size > limits.max_bytes:
        raise RefusedFileError(
            f"{shown(path)} has {about.st_size / GIB:.1f} GiB, more than the {limits.max_bytes / GIB:.3g} that are "
            "read; give fewer steps, or allow more by --max-gib"
        )
    return path


def json_lines(path: Path, limits: Limits) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) for every line that is not empty.

    A last line without its newline is left out if it is not whole: a run that was killed leaves one.

    Raises:
        RefusedFileError: a line is too long, too deep, or no JSON object.
    """
    with checked(path, limits).open("rb") as file:
        number = 0
        while line := file.readline(limits.max_line_bytes + 1):
            number += 1
            if len(line) > limits.max_line_bytes:
                raise RefusedFileError(
                    f"{shown(path)}, line {number} is longer than {limits.max_line_bytes / 2**20:.3g} MiB: this is "
                    "no log of responses"
                )
            if not line.strip():
                continue
            try:
                content = json.loads(line)
            except (ValueError, RecursionError) as error:
                if not line.endswith(b"\n"):
                    return
                raise RefusedFileError(
                    f"{shown(path)}, line {number} is not JSON ({type(error).__name__}); is it a log of responses, "
                    "one JSON object a line?"
                ) from None
            if not isinstance(content, dict):
                raise RefusedFileError(f"{shown(path)}, line {number} is not a JSON object")
            yield number, content


def parquet_rows(path: Path, limits: Limits) -> tuple[list[str], Iterator[dict[str, Any]]]:
    """Return the columns of a Parquet file, and its rows, unpacked piece by piece.

    Raises:
        RefusedFileError: it is no Parquet, or more than the limits unpacked.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(checked(path, limits))
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, RefusedFileError):
            raise
        raise RefusedFileError(f"{shown(path)} cannot be read as a Parquet file ({type(error).__name__})") from None
    groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
    if file.metadata.num_rows > limits.max_rows or sum(group.total_byte_size for group in groups) > limits.max_bytes:
        raise RefusedFileError(
            f"{shown(path)} unpacks to more than {limits.max_rows} rows or {limits.max_bytes / GIB:.3g} GiB; give "
            "fewer steps, or allow more by --max-gib"
        )
    return list(file.schema_arrow.names), _unpacked(file, path, limits)


def _unpacked(file: Any, path: Path, limits: Limits) -> Iterator[dict[str, Any]]:
    import pyarrow as pa

    num_bytes = 0
    try:
        for batch in file.iter_batches(batch_size=64):  # few: a text that repeats costs nothing packed
            num_bytes += batch.nbytes
            if num_bytes > limits.max_bytes:
                raise RefusedFileError(
                    f"{shown(path)} unpacks to more than {limits.max_bytes / GIB:.3g} GiB; give fewer steps, or "
                    "allow more by --max-gib"
                )
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise RefusedFileError(f"{shown(path)} is damaged ({type(error).__name__})") from None


class Fields:
    """The values of one record, each of the type that a reader asks for.

    Args:
        record: of a file.
        where: file and line, for messages.
    """

    def __init__(self, record: dict[str, Any], where: str) -> None:
        self.record = record
        self.where = where

    def number(self, name: str) -> float | None:
        """Return a finite number; None where it is missing or not a number (NaN), as trainers write it.

        Raises:
            RefusedFileError: it is something else, or infinite.
        """
        value = self.record.get(name)
        if value is None:
            return None
        if isinstance(value, bool):
            return float(value)
        try:
            found = float(value) if isinstance(value, int | float) else math.inf
        except OverflowError:
            found = math.inf
        if math.isinf(found):
            raise RefusedFileError(f"{self.where}: {printable(name)} is no finite number")
        return None if math.isnan(found) else found

    def whole(self, name: str) -> int | None:
        """Return a whole number, at most 2^53 in size; None where it is missing.

        Raises:
            RefusedFileError: it is something else.
        """
        found = self.number(name)
        if found is None:
            return None
        if found != int(found) or abs(found) > 2**53:
            raise RefusedFileError(f"{self.where}: {printable(name)} is no whole number")
        return int(found)

    def count(self, name: str) -> int | None:
        """Return a whole number of at least 0; None where it is missing.

        Raises:
            RefusedFileError: it is something else.
        """
        found = self.whole(name)
        if found is not None and found < 0:
            raise RefusedFileError(f"{self.where}: {printable(name)} is negative")
        return found

    def need(self, name: str) -> int:
        """Return a whole number that has to be there.

        Raises:
            RefusedFileError: it is missing or something else.
        """
        found = self.whole(name)
        if found is None:
            raise RefusedFileError(f"{self.where} has no {printable(name)}")
        return found

    def table(self, name: str) -> dict[str, Any]:
        """Return an object; an empty one where it is missing.

        Raises:
            RefusedFileError: it is something else.
        """
        value = self.record.get(name)
        if value is not None and not isinstance(value, dict):
            raise RefusedFileError(f"{self.where}: {printable(name)} is no object")
        return value or {}

    def rows(self, name: str) -> list[Any]:
        """Return a list; an empty one where it is missing.

        Raises:
            RefusedFileError: it is something else.
        """
        value = self.record.get(name)
        if value is not None and not isinstance(value, list):
            raise RefusedFileError(f"{self.where}: {printable(name)} is no list")
        return value or []


def key_of(*parts: Any) -> str:
    """Hash what identifies a prompt: its text or its turns, and its reference. No text goes further than this.

    Example:
        >>> key_of("1 + 1", "2") == key_of("1 + 1", "2") != key_of("1 + 1", "3")
        True
    """
    text = json.dumps([_plain(part) for part in parts], sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def text_of(content: Any) -> str:
    """Return the text of a completion: itself, or that of its chat turns."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(text_of(turn.get("content") if isinstance(turn, dict) else turn) for turn in content)
    return ""


def printable(text: Any) -> str:
    """Spell what stands in a file so that it can neither steer a terminal nor fill it."""
    spelled = "".join(character if character.isprintable() else "?" for character in str(text))
    return spelled if len(spelled) <= 80 else f"{spelled[:77]}..."


def shown(path: Path) -> str:
    """Spell a path, whose name may be anything."""
    return "".join(character if character.isprintable() else "?" for character in str(path))


def _plain(part: Any) -> Any:
    """Of chat turns, what was said by whom: an added key of a chat template is no other prompt."""
    if isinstance(part, list):
        return [[turn.get("role"), turn.get("content")] if isinstance(turn, dict) else turn for turn in part]
    return part
