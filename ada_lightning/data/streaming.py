"""Prompts from a stream: a data set that is read while the run goes on, or an iterator of the user's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ada_lightning.core.records import Prompt
from ada_lightning.data.dataset import DatasetSource, RowFilter
from ada_lightning.data.hub import stream_dataset, streamed_rows
from ada_lightning.data.layouts import NUM_ROWS
from ada_lightning.data.prompt_builder import PromptBuilder
from ada_lightning.data.prompts import SLOT, same_text
from ada_lightning.data.reading import RowReader
from ada_lightning.data.report import ReadingReport
from ada_lightning.data.row_stream import RowStream, has_place

MOST_UNUSABLE = 100_000
"""Rows in a row without a new usable prompt after which a run ends: some streams would be read for ever."""


class StreamingSource(DatasetSource):
    """Reads prompts one after another, each once, and never knows how many there are.

    Columns, layouts, patterns, templates and filters are those of :class:`~ada_lightning.data.dataset.DatasetSource`,
    and so are the counts of its report, as far as rows were read. Rows that cannot be used are dropped and counted.

    Args:
        path: as there. Read with ``datasets`` in streaming mode, whose types its values have. Only JSON lines on this
            machine have the values of files. Files end in ``.jsonl``, ``.json``, ``.parquet`` or ``.arrow``, and all of
            them alike. They may be addresses (``https://...``).
        rows: in place of ``path``: an iterator or iterable of mappings of columns, such as a generator. With methods
            ``state_dict`` and ``load_state_dict`` it keeps its place itself, else rows are counted.
        num_heldout: prompts held out: of ``heldout_path`` or ``heldout_split`` where one is given, and None for all of
            it; else the first so many prompts of the stream, which are not trained on.
        seed: of the shuffle, and of the choice of held-out prompts from a set of their own.
        shuffle_buffer: rows that ``datasets`` holds to shuffle them; 0 leaves them in their order. ``rows`` are not
            shuffled.
        num_first: usable prompts that are read before the first step, at least.
        name: configuration of a data set of the hub.
        revision: branch, tag or commit on the hub.
        split: of the hub or a folder, without a slice.
        heldout_path: a finite data set of its own for held-out prompts, read whole. Rows of the stream with the text of
            one of them are dropped.
        heldout_split: split of it, or else of ``path``.
        prompt_column: this argument and those after it are the same as there.

    Raises:
        ValueError: settings that cannot work, alone or together.
    """

    def __init__(
        self,
        path: str | Path | Sequence[str] | None = None,
        *,
        num_heldout: int | None,
        seed: int,
        rows: Any = None,
        shuffle_buffer: int = 0,
        num_first: int = 512,
        name: str | None = None,
        revision: str | None = None,
        split: str = "train",
        heldout_path: str | Path | Sequence[str] | None = None,
        heldout_split: str | None = None,
        prompt_column: str | None = None,
        answer_column: str | None = None,
        task_column: str | None = None,
        choices_column: str | None = None,
        task: str = "dataset",
        prompt_pattern: str | None = None,
        answer_pattern: str | None = None,
        needs_answer: bool = True,
        keep_columns: Sequence[str] | None = None,
        filters: Sequence[RowFilter] = (),
        system_prompt: str | None = None,
        prompt_template: str = SLOT,
    ) -> None:
        _check(path, rows, shuffle_buffer, num_first)
        if num_heldout is None and heldout_path is None and heldout_split is None:
            raise ValueError("data.source.num_heldout=null holds out all of heldout_path or heldout_split; name one")
        if rows is not None and heldout_split is not None and heldout_path is None:
            raise ValueError(
                f"data.source.heldout_split = {heldout_split!r} belongs to a data set, and data.source.rows are none; "
                "name the data set with data.source.heldout_path"
            )
        self._is_own = rows is not None
        self._last_prompt = 0  # rows until the last one that was a prompt
        given: Any = path if rows is None else rows
        columns: dict[str, Any] = {
            "prompt_column": prompt_column, "answer_column": answer_column, "task_column": task_column,
            "choices_column": choices_column, "prompt_pattern": prompt_pattern, "answer_pattern": answer_pattern,
        }  # fmt: skip
        super().__init__(
            given,
            num_heldout=num_heldout, seed=seed, name=name, revision=revision, split=split, heldout_path=heldout_path,
            heldout_split=heldout_split, task=task, needs_answer=needs_answer, keep_columns=keep_columns,
            filters=filters, system_prompt=system_prompt, prompt_template=prompt_template, **columns,
        )  # fmt: skip
        self.shuffle_buffer, self.num_first = shuffle_buffer, num_first

    def check(self) -> None:
        """Look at the first rows of a data set; those of an iterator are first read when the run begins.

        Raises:
            ValueError: it cannot be read, or no column can be the prompt or the answer.
        """
        if not isinstance(self.reader, OwnRows):
            self._builder  # noqa: B018 - made of the first rows

    def train_prompts(self) -> Sequence[Prompt]:
        """Refuse: there is no list of them.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            f"{self.reader.origin} is a stream: its prompts come once each, and nothing can list them all. What needs "
            "all of them works with data=dataset"
        )

    def heldout_prompts(self) -> Sequence[Prompt]:
        """Prompts to evaluate on; no training prompt has the same text."""
        return self._heldout

    def place_of(self, prompt_id: str) -> None:
        """Say nothing: a row that was read is gone."""

    @property
    def reports(self) -> list[ReadingReport]:
        """What became of the rows that were read so far, and of the held-out set where it has one of its own."""
        self.heldout_prompts()
        return [self.report, *self._reports]

    @cached_property
    def rows(self) -> RowStream:
        """The rows, of which the held-out prompts may have taken the first."""
        if isinstance(self.reader, OwnRows):
            own = self.reader.given
            return RowStream(own, self.reader.origin, own if has_place(own) else None)
        reader = self.reader
        files = reader.addresses or reader.files
        dataset = stream_dataset(
            reader.paths[0], name=reader.name, revision=reader.revision, split=reader.split,
            files=files, shuffle_buffer=self.shuffle_buffer, seed=self.seed,
        )  # fmt: skip
        # A state of a shuffled data set leaves out what its buffer holds and gives some rows twice: they are counted.
        return RowStream(_RowsOf(dataset, files), reader.origin, None if self.shuffle_buffer else dataset)

    @cached_property
    def report(self) -> ReadingReport:
        """What became of the rows of the stream, as far as they were read."""
        return self._new_report(self.reader, self._builder)

    def next_prompt(self) -> tuple[str, Prompt | None] | None:
        """Return the next row as a prompt, and where it stands; no prompt where it is dropped, None at the end.

        Raises:
            ValueError: the row cannot be read, a filter cannot judge it, or too many rows in a row are no prompts.
        """
        self.heldout_prompts()
        return self._next(self._heldout_texts)

    def nothing_usable(self, *, since: int) -> str:
        """Say that no row was usable since the first so many, with the counts and what may help."""
        number, dropped = self.rows.num_taken - since, self.report.dropped
        rows = f"none of the last {number} rows" if number else "no row behind the held-out prompts"
        lines = [f"{rows} of {self.reader.origin} can be used:", *self.report.lines()]
        if dropped["held out"] or dropped["duplicates"]:
            lines.append(
                "Where rows repeat prompts, hold out fewer (data.source.num_heldout) or read fewer at once "
                "(data.source.num_first, data.prompts_per_step)"
            )
        return "\n".join(lines)

    def state_dict(self) -> dict[str, Any]:
        """The place in the rows, and what became of those before it."""
        return {"rows": self.rows.state_dict(), "report": self.report.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`.

        Raises:
            ValueError: as :meth:`~ada_lightning.data.row_stream.RowStream.load_state_dict`.
        """
        self.rows.load_state_dict(state["rows"])
        self._last_prompt = self.rows.num_taken
        self.report.load_state_dict(state["report"])

    @cached_property
    def _builder(self) -> PromptBuilder:
        head = self.rows.head(NUM_ROWS)
        if not head:
            raise ValueError(f"{self.reader.origin} holds no prompts; it needs at least one row")
        return PromptBuilder(self._checked_layout(self.reader, head), **self._building)

    @cached_property
    def _heldout(self) -> list[Prompt]:
        if self.heldout_reader is not None:
            return self._held_out(self._read(self.heldout_reader))
        number, found, last_new = self.num_heldout or 0, dict[str, Prompt](), 0
        while len(found) < number and (row := self._next(frozenset())) is not None:
            if (prompt := row[1]) is not None and prompt.prompt_id in found:
                self.report.drop("duplicates")
            elif prompt is not None:
                found[prompt.prompt_id], last_new = prompt, self.rows.num_taken
            if (num_old := self.rows.num_taken - last_new) > MOST_UNUSABLE:
                break
        if number and not found:
            raise ValueError(self.nothing_usable(since=0))
        if len(found) < number:
            reason = "ends after" if self.rows.has_ended else f"gives {num_old} rows without a new prompt after"
            raise ValueError(
                f"data.source.num_heldout = {number}, but {self.reader.origin} {reason} {len(found)} prompts; hold "
                "out fewer: data.source.num_heldout=<number>, or name a data set for it: "
                "data.source.heldout_path=<path>"
            )
        return list(found.values())

    @cached_property
    def _heldout_texts(self) -> frozenset[Any]:
        return frozenset(map(same_text, self._heldout))

    def _next(self, excluded: frozenset[Any]) -> tuple[str, Prompt | None] | None:
        builder, report = self._builder, self.report
        if (row := self.rows.take()) is None:
            return None
        where, columns = row
        report.num_read += 1
        prompt = self._prompt(builder, columns, where, report)
        if prompt is not None and same_text(prompt) in excluded:
            report.drop("held out")
            prompt = None
        if prompt is not None:
            self._last_prompt = self.rows.num_taken
            for what in builder.changes:
                report.change(what, where)
        elif self.rows.num_taken - self._last_prompt > MOST_UNUSABLE:
            raise ValueError(self.nothing_usable(since=self._last_prompt))
        for name, kind in builder.left_out.items():
            if (note := f"column {name!r} holds {kind} and is not given to the reward") not in report.notes:
                report.notes.append(note)
        return where, prompt

    def _columns_to_read(self) -> set[str] | None:
        return None

    def _reader(self, path: Any, **where: Any) -> RowReader:
        return OwnRows(path) if self._is_own else RowReader(path, takes_addresses=True, **where)


class OwnRows(RowReader):
    """An iterator of the user's own in place of files.

    Args:
        rows: that give mappings of columns.
    """

    def __init__(self, rows: Any) -> None:
        name = getattr(rows, "__qualname__", type(rows).__qualname__)
        super().__init__(name, name=None, revision=None, split="train")
        self.given = rows

    @property
    def origin(self) -> str:
        """What it is called in messages: the function or class that made it."""
        return self.paths[0]


class _RowsOf:
    """The rows of a streamed data set, from its present place whenever they are begun."""

    def __init__(self, dataset: Any, files: Sequence[Path | str]) -> None:
        self._dataset, self._files = dataset, files

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return streamed_rows(self._dataset, self._files)


def _check(path: object, rows: object, shuffle_buffer: int, num_first: int) -> None:
    if (path is None) == (rows is None):
        raise ValueError(
            f"data.source needs either path, a data set, or rows, an iterator of your own; got {path!r} and {rows!r}"
        )
    if rows is not None and (isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable)):
        raise ValueError(
            "data.source.rows must be something to iterate over that gives rows, such as "
            "{_target_: my_module.my_generator}; got " + type(rows).__name__
        )
    if rows is not None and shuffle_buffer:
        raise ValueError(
            f"data.source.shuffle_buffer = {shuffle_buffer} is for data sets: datasets shuffles those. Shuffle in "
            "data.source.rows itself, and set shuffle_buffer=0"
        )
    if shuffle_buffer < 0 or shuffle_buffer == 1:
        raise ValueError(
            f"data.source.shuffle_buffer must be 0, for the order of the rows, or at least 2; got {shuffle_buffer}"
        )
    if num_first < 1:
        raise ValueError(f"data.source.num_first must be at least 1; got {num_first}")
