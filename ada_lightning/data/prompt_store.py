"""Fills the cache with the rows of a large data set and an index of those that became prompts."""

from __future__ import annotations

import json
import shutil
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from ada_lightning.core.prompt_columns import ids_of_keys
from ada_lightning.core.records import Prompt
from ada_lightning.data.plain_rows import PlainRows
from ada_lightning.data.prompt_builder import PromptBuilder
from ada_lightning.data.prompts import stable_hashes, text_key
from ada_lightning.data.reading import RowReader
from ada_lightning.data.report import Kind, ReadingReport
from ada_lightning.data.stored_prompts import INDEX, StoredPrompts, folder_of, mapped
from ada_lightning.data.table_files import TableRows
from ada_lightning.data.text_files import Row
from ada_lightning.training.models.cache import CACHE_VARIABLE, prepare_once

LARGE = 20_000
"""Rows above which a data set is kept in the cache; fewer are read in a second."""
_REPORT = "report.json"
_SAY_EVERY_S = 5.0
_ENTRY = np.dtype(
    [("row", "i8"), ("id_key", "u8"), ("text_key", "u8"), ("distinct", "u8"), ("said", "u8"), ("task", "i4")]
)
Batch = TableRows | Sequence[Row]
Accept = Callable[[Mapping[str, Any], str], Prompt | None]
"""Makes a prompt of a row, which stands at some place; None where it is dropped, which it reports."""


def read_stored(
    reader: RowReader,
    builder: PromptBuilder,
    report: ReadingReport,
    *,
    columns: Collection[str] | None,
    settings: object,
    seed: int,
    accept: Accept,
    is_filtered: bool,
) -> tuple[StoredPrompts, int]:
    """Read rows into the cache, or find them there; a folder of it is filled whole or not at all.

    Args:
        reader: of the rows.
        builder: makes prompts of rows.
        report: gets what became of the rows.
        columns: to read; None for all.
        settings: that decide what becomes of rows; their ``repr`` says all of them.
        seed: of the choice of held-out prompts.
        accept: makes a prompt of a row.
        is_filtered: whether every row has to be accepted, as plain as it may be.

    Returns:
        The prompts; and how many duplicates have another answer than the first.

    Raises:
        ValueError: the cache cannot be written, or something cannot be read.
    """
    import pyarrow as pa

    wanted = None if columns is None else sorted(columns)
    folder = folder_of([str(file) for file in reader.files], (reader.split, builder.layout, settings, wanted, seed))
    if (num_conflicts := _restored(folder, builder, report)) is not None:
        return StoredPrompts(folder, builder), num_conflicts
    about = reader.about_rows()
    print(
        f"data: {about} rows of {reader.origin} are read once: every row decides which prompts are duplicates and "
        "which are held out",
        flush=True,
    )

    def build(building: Path) -> None:
        progress, files = _Progress(reader.origin, about), _Files(building)
        index = _Index(builder, report, accept, seed, is_filtered=is_filtered)
        for batch in reader.batches(columns):
            files.write(batch)
            index.add(batch)
            progress.note(report.num_read)
        files.close()
        num_conflicts = index.write(building / INDEX, lambda row: place_in(reader.batches(columns), row))
        counts = asdict(replace(report, dropped=Counter()))
        saved = {"report": counts | {"dropped": report.dropped}, "num_conflicts": num_conflicts}
        (building / _REPORT).write_text(json.dumps(saved | {"left_out": builder.left_out}), encoding="utf-8")

    try:
        if folder.exists():  # what is there cannot be read
            shutil.rmtree(folder)
        prepare_once(folder, build)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(
            f"cannot keep the prompts of {report.origin} in {folder} ({error}); name a folder with room in the "
            f"environment variable {CACHE_VARIABLE}"
        ) from error
    num_conflicts = _restored(folder, builder, report)  # another process may have filled it meanwhile
    assert num_conflicts is not None
    return StoredPrompts(folder, builder), num_conflicts


def place_in(batches: Iterable[Batch], row: int) -> str:
    """Return where a row stands, counted over all of the data from 0; it alone is made."""
    for batch in batches:
        if row < len(batch):
            where, _ = next(batch.at([row])) if isinstance(batch, TableRows) else batch[row]
            return where
        row -= len(batch)
    raise IndexError(row)


def _restored(folder: Path, builder: PromptBuilder, report: ReadingReport) -> int | None:
    """Enter what was counted when the folder was filled, and return the conflicts; None where it is not whole."""
    import pyarrow as pa

    try:
        saved = json.loads((folder / _REPORT).read_text(encoding="utf-8"))
        mapped(folder / INDEX)
    except (OSError, ValueError, pa.ArrowException):
        return None
    builder.left_out |= saved["left_out"]
    counts = saved["report"]
    report.num_read, report.dropped, report.examples = (
        counts["num_read"],
        Counter(counts["dropped"]),
        counts["examples"],
    )
    report.kinds = {
        reason: {name: Kind(**kind) for name, kind in found.items()} for reason, found in counts["kinds"].items()
    }
    report.changes = {what: Kind(**kind) for what, kind in counts["changes"].items()}
    return int(saved["num_conflicts"])


class _Progress:
    """Says how far reading is, at which rate, and how long it will take: a line every few seconds."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._begin = self._said = time.monotonic()

    def note(self, num_done: int) -> None:
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


class _Files:
    """Writes batches of rows as they are, in a new file where the schema changes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None
        self._schema: Any = None
        self._number = -1

    def write(self, batch: Batch) -> None:
        import pyarrow as pa

        if isinstance(batch, TableRows):
            table = batch.batch
        else:
            table = pa.table({"row": pa.array([json.dumps(columns) for _, columns in batch], pa.large_string())})
            table = table.replace_schema_metadata({"rows": "json"})
        if self._writer is None or not table.schema.equals(self._schema, check_metadata=True):
            self.close()
            self._schema, self._number = table.schema, self._number + 1
            self._writer = pa.ipc.new_file(str(self._folder / f"rows-{self._number}.arrow"), self._schema)
        self._writer.write(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class _Index:
    """Collects keys of the rows that become prompts, and drops duplicates once all are there."""

    def __init__(
        self, builder: PromptBuilder, report: ReadingReport, accept: Accept, seed: int, *, is_filtered: bool
    ) -> None:
        self._builder, self._report, self._accept = builder, report, accept
        self._seed, self._is_filtered = seed, is_filtered
        self._parts: list[NDArray[Any]] = []
        self._order_keys: list[NDArray[np.uint64]] = []
        self._tasks: dict[str, int] = {}
        self._changed: dict[str, array[int]] = {}
        """Rows by what was changed in them."""

    def add(self, batch: Batch) -> None:
        """Enter the next rows."""
        first, others = self._report.num_read, range(len(batch))
        self._report.num_read += len(batch)
        parts = []
        if isinstance(batch, TableRows):
            plain = None if self._is_filtered else PlainRows.of(batch.batch, self._builder)
            if plain is not None:
                others = np.delete(np.arange(len(batch)), plain.places).tolist()
                parts.append(self._of_plain(plain, first))
            rows = batch.at(others)
        else:
            rows = iter(batch)
        made = [
            self._of_row(columns, where, first + place) for place, (where, columns) in zip(others, rows, strict=True)
        ]
        parts.append(np.array([entry for entry in made if entry is not None], dtype=_ENTRY))
        found = np.concatenate(parts)
        found = found[np.argsort(found["row"])]
        self._parts.append(found)
        self._order_keys.append(stable_hashes(self._seed, ids_of_keys(found["id_key"])))

    def _of_plain(self, plain: PlainRows, first: int) -> NDArray[Any]:
        found = np.zeros(len(plain.places), dtype=_ENTRY)
        found["row"], found["id_key"], found["text_key"] = first + plain.places, plain.id_keys, plain.text_keys
        found["said"] = [_hashed(answer) for answer in plain.answers]
        found["task"] = self._number_of(self._builder.task) if plain.answers else 0
        return found

    def _of_row(self, columns: Mapping[str, Any], where: str, row: int) -> tuple[int, ...] | None:
        if (prompt := self._accept(columns, where)) is None:
            return None
        for what in self._builder.changes:
            self._changed.setdefault(what, array("q")).append(row)
        # What the template is given for one row alone makes it another prompt.
        distinct = _hashed(prompt.template_arguments) if prompt.template_arguments else 0
        said, task = _hashed(prompt.reference.get("answer")), self._number_of(prompt.task)
        return row, int(prompt.prompt_id, 16), text_key(prompt.messages), distinct, said, task

    def _number_of(self, task: str) -> int:
        return self._tasks.setdefault(task, len(self._tasks))

    def write(self, path: Path, place_of: Callable[[int], str]) -> int:
        """Write the index without duplicates, report them, and return how many have another answer than the first."""
        import pyarrow as pa

        found, order_keys = np.concatenate(self._parts), np.concatenate(self._order_keys)
        _, first, inverse = np.unique(found["text_key"] ^ found["distinct"], return_index=True, return_inverse=True)
        first_like_it = first[inverse]
        is_kept = first_like_it == np.arange(len(found))
        if num_duplicates := len(found) - len(first):
            self._report.drop("duplicates", count=num_duplicates)
        num_conflicts = int(np.count_nonzero(found["said"] != found["said"][first_like_it]))
        kept = found[is_kept]
        for what, rows in self._changed.items():
            changed = np.array(rows)[np.isin(rows, kept["row"])]
            if len(changed):
                self._report.changes[what] = Kind(len(changed), place_of(int(changed[0])))
        names = pa.array(list(self._tasks), pa.string())
        columns = {name: kept[name] for name in ("id_key", "text_key", "row")} | {"order_key": order_keys[is_kept]}
        tasks = pa.DictionaryArray.from_arrays(pa.array(kept["task"]), names)
        table = pa.table({name: np.ascontiguousarray(column) for name, column in columns.items()} | {"task": tasks})
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
        return num_conflicts


def _hashed(value: Any) -> int:
    return xxhash.xxh3_64_intdigest(repr(value).encode())
