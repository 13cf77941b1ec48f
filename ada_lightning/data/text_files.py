"""Rows of JSON-lines, JSON and CSV files, each with the place it stands at."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

_MAX_EXAMPLES = 5
_MAX_SHOWN_BYTES = 80

Row = tuple[str, dict[str, Any]]
"""Where it stands, for messages (``sums.jsonl, line 7``), and its columns."""


def read_jsonl(path: Path) -> Iterator[Row]:
    """Yield the rows of a file with one JSON object a line; empty lines are skipped.

    Raises:
        ValueError: the file cannot be read or is not UTF-8; or, at its end, some lines are no JSON objects.
    """
    errors: list[str] = []
    num_errors = 0
    with _opened(path) as file:
        # Only \n ends a line: JSON text may hold characters such as U+2028 that splitlines() would split at.
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    row = parsed_line(line.rstrip("\n"), f"{path}, line {number}")
                except ValueError as error:
                    num_errors += 1
                    if num_errors <= _MAX_EXAMPLES:
                        errors.append(str(error))
                    continue
                yield row
    if errors:
        raise ValueError(unusable_rows(errors, num_errors, f"lines of {path} are no JSON objects"))


def unusable_rows(examples: Sequence[str], number: int, what: str) -> str:
    """One message for so many rows, of which the first are examples.

    Example:
        >>> print(unusable_rows(["a.jsonl, line 1: no text", "a.jsonl, line 2: no text"], 8, "lines are empty"))
        8 lines are empty:
          a.jsonl, line 1: no text
          a.jsonl, line 2: no text
          and 6 more
    """
    if number == 1:
        return examples[0]
    shown = list(examples[:_MAX_EXAMPLES])
    more = [f"and {number - len(shown)} more"] if number > len(shown) else []
    return "\n  ".join([f"{number} {what}:", *shown, *more])


def read_json(path: Path) -> Iterator[Row]:
    """Yield the objects of a JSON list; a file with one object a line is read as JSON lines, whatever its name.

    Raises:
        ValueError: the file cannot be read or is not UTF-8, is no JSON, or holds something else than objects.
    """
    with _opened(path) as file:
        text = file.read()
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":  # what a second object is to the parser
            raise ValueError(
                f"{path}, line {error.lineno}: not valid JSON at column {error.colno}: {error.msg}"
            ) from error
        yield from read_jsonl(path)
        return
    if isinstance(value, dict) and any(isinstance(item, list) for item in value.values()):
        raise ValueError(
            f"{path} holds one JSON object with the keys {', '.join(value)}; a list of objects is needed: save the "
            "list inside as a file of its own"
        )
    for index, item in enumerate(value if isinstance(value, list) else [value]):
        where = f"{path}, row {index}"
        yield where, _as_object(item, where)


def read_csv(path: Path) -> Iterator[Row]:
    """Yield the rows of a comma-separated (``.tsv``: tab-separated) file whose first line names the columns.

    Every value is text as it stands, so that ``007`` and ``NA`` stay what they are; an empty field is None. A first
    column without a name is the index that pandas writes, and is called ``Unnamed: 0`` as pandas does.

    Raises:
        ValueError: the file cannot be read or is not UTF-8, a column has no name or the name of another, or a row has
            another number of fields than there are columns.
    """
    csv.field_size_limit(2**31 - 1)
    with _opened(path, newline="") as file:
        reader = csv.reader(file, delimiter="\t" if ".tsv" in path.suffixes else ",", strict=True)
        try:
            first, *others = next(filter(None, reader), [""])  # behind blank lines
            names = [first or "Unnamed: 0", *others]
            if len(set(names)) < len(names) or "" in names:
                raise ValueError(
                    f"{path}, line {reader.line_num}: column names must be unique; found {', '.join(names)}"
                )
            start = reader.line_num + 1
            for fields in reader:
                where, start = f"{path}, line {start}", reader.line_num + 1
                if not fields:
                    continue
                if len(fields) != len(names):
                    raise ValueError(
                        f"{where}: {len(fields)} fields for {len(names)} columns; quote fields with commas"
                    )
                yield where, {name: field or None for name, field in zip(names, fields, strict=True)}
        except csv.Error as error:
            raise ValueError(f"{path}, line {reader.line_num}: not valid CSV: {error}") from error


@contextmanager
def _opened(path: Path, newline: str = "\n") -> Iterator[TextIO]:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline=newline) as file:
            yield file
    except UnicodeDecodeError as error:
        raise ValueError(_not_utf8(path, opener)) from error
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"cannot read prompts from {path} ({path.absolute()}): {error}") from error


def _not_utf8(path: Path, opener: Any) -> str:
    """Name the line, and how to convert the file."""
    with opener(path, "rb") as file:
        start = file.read(2)
        file.seek(0)
        number, line = next((number, line) for number, line in enumerate(file, start=1) if not _is_utf8(line))
    encoding = "UTF-16" if start in (b"\xff\xfe", b"\xfe\xff") else "ISO-8859-1"
    shown = repr(line[:_MAX_SHOWN_BYTES].decode("utf-8", "backslashreplace"))
    return (
        f"{path}, line {number}: not UTF-8: {shown}; convert the file, for example from {encoding}: "
        f"iconv -f {encoding} -t UTF-8 {path.with_suffix('') if path.suffix == '.gz' else path} > <new file>"
    )


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def parsed_line(line: str, where: str) -> Row:
    """Return the row of a line of JSON.

    Raises:
        ValueError: it is no JSON object.
    """
    try:
        return where, _as_object(json.loads(line), where)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not valid JSON at column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise ValueError(f"{where}: objects and lists are nested too deeply") from error


def _as_object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: a JSON object with columns is needed; found {type(value).__name__}")
    return value
