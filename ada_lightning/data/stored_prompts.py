"""Prompts of a large data set: its rows in Arrow files of a cache, memory-mapped; a prompt is made when asked for.

The cache has a folder for each set of files, settings and version of the code that reads them. It holds the rows as
they were read, and an index of those that became prompts. A second start reads the index alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, overload

import numpy as np
import xxhash
from numpy.typing import NDArray

from ada_lightning.core.prompt_columns import PromptTable
from ada_lightning.core.records import Prompt
from ada_lightning.data.prompt_builder import PromptBuilder
from ada_lightning.data.report import Kind, ReadingReport
from ada_lightning.data.table_files import TableRows
from ada_lightning.data.text_files import Row
from ada_lightning.training.models.cache import CACHE_VARIABLE

LARGE = 20_000
"""Rows above which a data set is kept in the cache; fewer are read in a second."""
_INDEX, _REPORT = "index.arrow", "report.json"
_SAY_EVERY_S = 5.0


class RowProgress:
    """Says how far reading is, at which rate, and how long it will take: a line every few seconds.

    Args:
        what: is read.
        total: rows, as far as they are known.
    """

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._begin = self._said = time.monotonic()

    def note(self, num_done: int) -> None:
        """Say it, if that is due."""
        now = time.monotonic()
        if now - self._said < _SAY_EVERY_S:
            return
        self._said, rate = now, num_done / (now - self._begin)
        left_s = max(self._total - num_done, 0) / rate
        print(
            f"data: {num_done} of about {self._total} rows of {self._what}, {rate:.0f} a second, {left_s:.0f} s left",
            file=sys.stderr,
            flush=True,
        )


def text_key(messages: Sequence[Mapping[str, str]]) -> int:
    """Return a number that two prompts share when the model is asked the same, whatever their template arguments."""
    parts = [part for message in messages for part in (message["role"], message["content"])]
    return xxhash.xxh3_64_intdigest("\x1f".join(parts).encode())


def folder_of(paths: Sequence[str], settings: object) -> Path:
    """Return the folder of the cache for some files, settings and this version of the code.

    Args:
        paths: files; another size or time of change is another content.
        settings: that decide what becomes of their rows, with a ``repr`` that says all of them.
    """
    files = [(str(Path(path).absolute()), (stat := Path(path).stat()).st_size, stat.st_mtime_ns) for path in paths]
    key = hashlib.sha256(repr((files, settings, _code())).encode()).hexdigest()[:24]
    root = os.environ.get(CACHE_VARIABLE) or "~/.cache/ada_lightning"
    return Path(root).expanduser().absolute() / "prompts" / key


@lru_cache(maxsize=1)
def _code() -> str:
    """Checksum of the modules that make prompts of rows."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


class StoredPrompts(PromptTable):
    """Some or all prompts of a folder of the cache.

    Args:
        folder: that :func:`store` filled.
        builder: makes prompts of rows.
        rows: of the index that are meant; None for all.
    """

    def __init__(self, folder: Path, builder: PromptBuilder, rows: NDArray[np.int64] | None = None) -> None:
        self._folder, self._builder = folder, builder
        self._index = _mapped(folder / _INDEX)
        self.rows = np.arange(self._index.num_rows) if rows is None else rows
        """Places in the index."""
        self._files: dict[int, Any] = {}

    def only(self, kept: NDArray[np.bool_] | NDArray[np.int64]) -> StoredPrompts:
        """Return some of these prompts: a mask, or places among them in another order."""
        return StoredPrompts(self._folder, self._builder, self.rows[kept])

    def file_of(self, settings: object) -> Path:
        """Return the file of the cache for what is known of these very prompts under some settings."""
        key = hashlib.sha256(repr(settings).encode() + self.rows.tobytes()).hexdigest()[:24]
        return self._folder / f"checked-{key}.npy"

    def column(self, name: str) -> NDArray[Any]:
        """Return a column of the index: ``id_key``, ``text_key``, ``order_key``, ``file`` or ``row``."""
        column: NDArray[Any] = self._index[name].to_numpy()
        return column[self.rows]

    @cached_property
    def ids(self) -> Sequence[str]:  # type: ignore[override]
        """Ids of all, in order."""
        text = self.column("id_key").astype(">u8").tobytes().hex()
        return [text[start : start + 16] for start in range(0, len(text), 16)]

    @cached_property
    def _sorted_keys(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        keys = self.column("id_key")
        order = np.argsort(keys)
        return keys[order], order

    def positions(self, prompt_ids: Sequence[str]) -> NDArray[np.int64]:
        """Return where prompts stand; -1 for those that are not here."""
        keys, order = self._sorted_keys
        wanted = np.array([int(id_, 16) if len(id_) == 16 else 0 for id_ in prompt_ids], dtype=np.uint64)
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[places] == wanted, order[places], -1)

    def tasks(self) -> Counter[str]:
        """Return how many prompts each task has."""
        encoded = self._index["task"].combine_chunks()
        codes = encoded.indices.to_numpy()[self.rows]
        names = encoded.dictionary.to_pylist()
        numbers, first, counts = np.unique(codes, return_index=True, return_counts=True)
        order = np.argsort(first)
        return Counter({names[numbers[place]]: int(counts[place]) for place in order})

    def place_of(self, prompt_id: str) -> str | None:
        """Return where a prompt stands in the data, for messages; None where it is not here."""
        (place,) = self.positions([prompt_id]).tolist()
        return None if place < 0 else str(self._index["where"][int(self.rows[place])].as_py())

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
        index = self.rows[np.asarray(places, dtype=np.int64)]
        numbers, rows = self._place_columns
        found: dict[int, Prompt] = {}
        builder = replace(self._builder)  # what it notes of a row is its own in each thread
        for number in np.unique(numbers[index]).tolist():
            of_file = index[numbers[index] == number]
            for where, columns in zip(of_file.tolist(), self._columns(number, rows[of_file]), strict=True):
                found[where] = builder.build(columns)
        return [found[where] for where in index.tolist()]

    @cached_property
    def _place_columns(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        return self._index["file"].to_numpy(), self._index["row"].to_numpy()

    def _columns(self, number: int, rows: NDArray[np.int64]) -> list[Mapping[str, Any]]:
        import pyarrow as pa

        if number not in self._files:
            table = _mapped(self._folder / f"rows-{number}.arrow")
            self._files[number] = table, np.cumsum([0, *(batch.num_rows for batch in table.to_batches())])
        table, starts = self._files[number]
        batches, found = table.to_batches(), {}
        of_batch = np.searchsorted(starts, rows, side="right") - 1
        for batch in np.unique(of_batch).tolist():
            these = rows[of_batch == batch]
            part = pa.Table.from_batches([batches[batch].take(pa.array(these - starts[batch]))])
            found |= zip(these.tolist(), (columns for _, columns in TableRows(part, "", 0)), strict=True)
        is_text = _is_text(table.schema)
        return [json.loads(found[row]["row"]) if is_text else found[row] for row in rows.tolist()]


def store(
    folder: Path,
    batches: Iterable[TableRows | Sequence[Row]],
    builder: PromptBuilder,
    report: ReadingReport,
    *,
    accept: Callable[[Mapping[str, Any], str], Prompt | None],
    order_key: Callable[[str], int],
    progress: RowProgress,
    is_filtered: bool,
) -> int:
    """Fill a folder of the cache, whole or not at all.

    Args:
        folder: to fill.
        batches: the rows.
        builder: whose ``changes`` and ``left_out`` count.
        report: counts what becomes of the rows.
        accept: makes a prompt of a row; None where it is dropped, which it reports.
        order_key: of an id, by which held-out prompts are chosen.
        progress: is told how far reading is.
        is_filtered: whether every row has to be accepted, as plain as it may be.

    Returns:
        Duplicates with another answer than the first.

    Raises:
        ValueError: the cache cannot be written.
    """
    import pyarrow as pa

    building = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True)
        num_conflicts = _write(building, batches, builder, report, accept, order_key, progress, is_filtered=is_filtered)
        counts = asdict(replace(report, dropped=dict(report.dropped)))  # type: ignore[arg-type]
        saved = counts | {"num_conflicts": num_conflicts, "left_out": builder.left_out}
        (building / _REPORT).write_text(json.dumps(saved), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)  # what cannot be read any more
        building.rename(folder)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(
            f"cannot keep the prompts of {report.origin} in {folder} ({error}); name a folder with room in the "
            "environment variable ADA_LIGHTNING_CACHE"
        ) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return num_conflicts


def stored_report(folder: Path, builder: PromptBuilder) -> tuple[ReadingReport, int] | None:
    """Return what :func:`store` counted, and give the builder what it found; None where the folder is not whole."""
    import pyarrow as pa

    try:
        saved = json.loads((folder / _REPORT).read_text(encoding="utf-8"))
        _mapped(folder / _INDEX)
    except (OSError, ValueError, pa.ArrowException):
        return None
    num_conflicts = saved.pop("num_conflicts")
    builder.left_out |= saved.pop("left_out")
    kinds = {reason: {name: Kind(**kind) for name, kind in found.items()} for reason, found in saved["kinds"].items()}
    changes = {what: Kind(**kind) for what, kind in saved["changes"].items()}
    read = {"dropped": Counter(saved["dropped"]), "kinds": kinds, "changes": changes}
    return ReadingReport(**saved | read), num_conflicts


class _Files:
    """Writes batches of rows as they are, in a file for each schema."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None
        self._schema: Any = None
        self.number = -1
        self.num_rows = 0

    def write(self, batch: TableRows | Sequence[Row]) -> None:
        import pyarrow as pa

        if isinstance(batch, TableRows):
            table = batch.batch
        else:
            table = pa.table({"row": pa.array([json.dumps(columns) for _, columns in batch], pa.large_string())})
            table = table.replace_schema_metadata({"rows": "json"})
        if self._writer is None or not table.schema.equals(self._schema, check_metadata=True):
            self.close()
            self._schema, self.number, self.num_rows = table.schema, self.number + 1, 0
            self._writer = pa.ipc.new_file(str(self._folder / f"rows-{self.number}.arrow"), self._schema)
        self._writer.write(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _write(
    folder: Path,
    batches: Iterable[TableRows | Sequence[Row]],
    builder: PromptBuilder,
    report: ReadingReport,
    accept: Callable[[Mapping[str, Any], str], Prompt | None],
    order_key: Callable[[str], int],
    progress: RowProgress,
    *,
    is_filtered: bool,
) -> int:
    import pyarrow as pa

    schema = pa.schema(
        [("id_key", pa.uint64()), ("text_key", pa.uint64()), ("order_key", pa.uint64()), ("file", pa.int32()),
         ("row", pa.int64()), ("where", pa.string()), ("task", pa.dictionary(pa.int32(), pa.string()))]
    )  # fmt: skip
    kinds = [*[field.type for field in schema][:-1], pa.int32()]
    seen: dict[int, int] = {}
    """Answer by text, both as checksums, of every prompt so far."""
    tasks: dict[str, int] = {}
    columns: list[list[Any]] = [[] for _ in schema]
    files, num_conflicts, written = _Files(folder), 0, []
    for batch in batches:
        files.write(batch)
        is_table = isinstance(batch, TableRows) and not is_filtered
        look = builder.plain_rows(batch.batch.schema) if is_table else None
        for where, row in batch:
            report.num_read += 1
            place, files.num_rows = files.num_rows, files.num_rows + 1
            changes: Iterable[str] = ()
            distinct = 0
            if look is not None and (found := look(row)) is not None:
                prompt_id, messages = found
                key, task, answer = text_key(messages), builder.task, row[builder.layout.answer or ""]
            else:
                if (prompt := accept(row, where)) is None:
                    continue
                prompt_id, key = prompt.prompt_id, text_key(prompt.messages)
                task, answer, changes = prompt.task, prompt.reference.get("answer"), builder.changes
                if prompt.template_arguments:  # of one row alone: it is another prompt
                    distinct ^= xxhash.xxh3_64_intdigest(repr(prompt.template_arguments).encode())
            said = xxhash.xxh3_64_intdigest(repr(answer).encode())
            num_before = len(seen)
            earlier = seen.setdefault(key ^ distinct, said)
            if len(seen) == num_before:
                report.drop("duplicates")
                num_conflicts += earlier != said
                continue
            entry = (int(prompt_id, 16), key, order_key(prompt_id), files.number, place, where)
            for column, value in zip(columns, (*entry, tasks.setdefault(task, len(tasks))), strict=True):
                column.append(value)
            for what in changes:
                report.change(what, where)
        written.append([pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)])
        columns = [[] for _ in schema]
        progress.note(report.num_read)
    files.close()
    *arrays, codes = (pa.concat_arrays(parts) for parts in zip(*written, strict=True))
    names = pa.array(list(tasks), pa.string())
    index = pa.table([*arrays, pa.DictionaryArray.from_arrays(codes, names)], schema=schema)
    with pa.ipc.new_file(str(folder / _INDEX), schema) as writer:
        writer.write_table(index)
    return num_conflicts


def _mapped(path: Path) -> Any:
    import pyarrow as pa

    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _is_text(schema: Any) -> bool:
    return (schema.metadata or {}).get(b"rows") == b"json"
