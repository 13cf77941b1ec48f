"""Prompts from data sets: of the Hugging Face hub, folders, and files of every usual kind."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.checks import not_text, refuse
from ada_lightning.core.records import Prompt
from ada_lightning.data.columns import has_column, lookup
from ada_lightning.data.filters import ColumnIn, ColumnRange
from ada_lightning.data.layouts import (
    LAYOUT_COLUMNS,
    NUM_ROWS,
    Layout,
    detect_answer,
    detect_layout,
    detect_solution,
    filled,
)
from ada_lightning.data.messages import may_hold_answer
from ada_lightning.data.prompt_builder import PromptBuilder, UnusableRowError
from ada_lightning.data.prompt_store import LARGE, place_in, read_stored
from ada_lightning.data.prompts import SLOT, same_text, stable_hash, text_key
from ada_lightning.data.reading import RowReader
from ada_lightning.data.report import ReadingReport
from ada_lightning.data.stored_prompts import StoredPrompts
from ada_lightning.data.text_files import Row, unusable_rows


class RowFilter(Protocol):
    """A condition on the columns of a row, see :mod:`ada_lightning.data.filters`."""

    def accepts(self, columns: Mapping[str, Any]) -> bool:
        """Whether the row is kept. KeyError: a column is missing; ValueError: its value cannot be compared.

        The condition in words, for the report, is ``label`` where there is one, else the name of the class.
        """
        ...


def _label(row_filter: RowFilter) -> str:
    return str(getattr(row_filter, "label", type(row_filter).__name__))


def _of_class(value: object) -> str:
    return repr(value) if isinstance(value, str | int | float) else f"an object of the class {type(value).__name__}"


def _accepts(row_filter: RowFilter, columns: Mapping[str, Any]) -> bool:
    """Ask a filter, which may be anybody's and fail in every way."""
    try:
        return bool(row_filter.accepts(columns))
    except Exception as error:
        if isinstance(row_filter, ColumnIn | ColumnRange):
            raise
        raise ValueError(f"the filter {_label(row_filter)} raised {type(error).__name__}: {error}") from error


class DatasetSource:
    """Reads prompts and answers, drops and counts what cannot be used, and holds some out.

    Columns that are not named are recognised (:func:`~ada_lightning.data.layouts.detect_layout`): data sets in the
    layouts of verl and TRL, and columns ``prompt``, ``problem`` or ``question`` with ``answer``, load as they are. The
    report says what was taken for what.

    Which prompts are held out depends on the seed and on each prompt's content, not on its place: rows may be
    reordered, and most of a split survives when rows are added. Of rows with the same prompt the first is kept.
    ``reference`` of a prompt and its id: see :class:`~ada_lightning.data.prompt_builder.PromptBuilder`.

    Args:
        path: see :class:`~ada_lightning.data.reading.RowReader`, with ``name`` and ``revision``.
        num_heldout: prompts held out: of ``heldout_path`` or ``heldout_split`` where one is given, else of ``path``; 0
            for none, None for all.
        seed: of the choice of held-out prompts.
        split: split of the hub or a folder; slices such as ``train[:1000]`` work.
        heldout_path: data set of its own for held-out prompts (its only configuration); None takes them from ``path``.
            Training prompts that occur in it are dropped, counted and warned about.
        heldout_split: split of ``heldout_path``, or where that is None of ``path``; None for ``train``.
        prompt_column: text or list of messages; dotted for what is inside an object or list; None recognises it.
        answer_column: text or a number; may be dotted; None recognises it.
        task_column: names the task of each prompt; None for ``data_source`` in verl's layout, else ``task``.
        solution_column: text of a worked solution, for ``hints=prefix`` and ``hints=text``; may be dotted; None
            recognises it. A row may be without one.
        choices_column: a list of choices, or an object with ``text`` and ``label``, put behind the question, a line
            each (``A. red``); the answer, a label, a choice or its place from 0, becomes the label. None shows none.
        task: of all prompts, where no column names one.
        prompt_pattern: regular expression whose first group is taken as the prompt; None takes all of it.
        answer_pattern: regular expression whose first group is taken as the answer; None takes all of it.
        needs_answer: False for rewards that need none: prompts without an answer stay, and answers may be of any type.
        keep_columns: columns that the reward is given; None gives it all. Few save memory and time.
        filters: conditions on columns; each is counted.
        skip_invalid: drop and count rows without a prompt or answer; False makes them an error.
        system_prompt: first turn of every prompt, in place of the one it has; None leaves it as it is.
        prompt_template: the user's turn, with ``{prompt}`` where the text goes; other braces mean themselves.

    Raises:
        ValueError: settings that cannot work, alone or together.
    """

    def __init__(
        self,
        path: str | Path | Sequence[str],
        *,
        num_heldout: int | None,
        seed: int,
        name: str | None = None,
        revision: str | None = None,
        split: str = "train",
        heldout_path: str | Path | Sequence[str] | None = None,
        heldout_split: str | None = None,
        prompt_column: str | None = None,
        answer_column: str | None = None,
        task_column: str | None = None,
        solution_column: str | None = None,
        choices_column: str | None = None,
        task: str = "dataset",
        prompt_pattern: str | None = None,
        answer_pattern: str | None = None,
        needs_answer: bool = True,
        keep_columns: Sequence[str] | None = None,
        filters: Sequence[RowFilter] = (),
        skip_invalid: bool = True,
        system_prompt: str | None = None,
        prompt_template: str = SLOT,
    ) -> None:
        refuse(
            *not_text(
                prompt_column=prompt_column, answer_column=answer_column, task_column=task_column,
                solution_column=solution_column, choices_column=choices_column, task=task,
                prompt_pattern=prompt_pattern, answer_pattern=answer_pattern, system_prompt=system_prompt,
                prompt_template=prompt_template,
            ),
            *(
                f"data.source.filters.{place} is no filter: {_of_class(row_filter)} has no method accepts(columns); "
                "write a _target_, such as ada_lightning.data.filters.ColumnRange, or a class of your own with one"
                for place, row_filter in enumerate(filters)
                if not callable(getattr(row_filter, "accepts", None))
            ),
        )  # fmt: skip
        if prompt_column is not None and prompt_column == answer_column:
            raise ValueError(f"data.source.prompt_column and answer_column are both {prompt_column!r}")
        if SLOT not in prompt_template:
            raise ValueError(
                f"data.source.prompt_template must say where the prompt goes with {SLOT}; got {prompt_template!r}"
            )
        _check_heldout(num_heldout, heldout_path=heldout_path, heldout_split=heldout_split)
        self.choices_column = choices_column
        self.reader = self._reader(path, name=name, revision=revision, split=split)
        self.heldout_reader: RowReader | None = None
        if heldout_path is not None:
            self.heldout_reader = RowReader(
                heldout_path, name=None, revision=None, split=heldout_split or "train", split_setting="heldout_split"
            )
        elif heldout_split is not None:
            self.heldout_reader = RowReader(
                path, name=name, revision=revision, split=heldout_split, split_setting="heldout_split"
            )
        self.num_heldout = num_heldout
        self.seed = seed
        self.prompt_column, self.answer_column, self.task_column = prompt_column, answer_column, task_column
        self.solution_column = solution_column
        self.keep_columns = None if keep_columns is None else [str(column) for column in keep_columns]
        self.needs_answer = needs_answer
        self.filters = list(filters)
        self.skip_invalid = skip_invalid
        self._building: dict[str, Any] = {
            "prompt_pattern": _compiled("prompt_pattern", prompt_pattern),
            "answer_pattern": _compiled("answer_pattern", answer_pattern),
            "needs_answer": needs_answer,
            "keep_columns": self.keep_columns,
            "system_prompt": system_prompt,
            "prompt_template": prompt_template,
            "choices_column": choices_column,
            "task": task,
        }
        self._reports: list[ReadingReport] = []

    @property
    def reports(self) -> list[ReadingReport]:
        """What became of the rows: of ``path``, and of the held-out set where it has one of its own."""
        self.heldout_prompts()
        return self._reports

    def _reader(self, path: str | Path | Sequence[str], **where: Any) -> RowReader:
        return RowReader(path, **where)

    def train_prompts(self) -> Sequence[Prompt]:
        """Prompts to learn from, in the order of the data set.

        Raises:
            ValueError: as :meth:`check`.
        """
        train = self._split[0]
        if not train:
            raise ValueError(self._nothing_left(self._reports[0].num_kept))
        return train

    def _nothing_left(self, number: int) -> str:
        if self.heldout_reader is not None:
            return (
                f"each of the {number} prompts in {self.reader.origin} occurs in {self.heldout_reader.origin} too; set "
                "data.source.heldout_path or heldout_split to other prompts, or leave it out"
            )
        if self.num_heldout is None:
            return (
                f"data.source.num_heldout=null holds out all {number} prompts of {self.reader.origin} that it trains "
                f"on; set it to at most {number - 1}, or name data.source.heldout_path or heldout_split"
            )
        return (
            f"no training prompt of the {number} in {self.reader.origin} is left after holding out {self.num_heldout}; "
            "lower data.source.num_heldout or bring more data"
        )

    def heldout_prompts(self) -> Sequence[Prompt]:
        """Prompts to evaluate on; no training prompt has the same text."""
        return self._split[1]

    @property
    def is_large(self) -> bool:
        """Whether its rows go into the cache, of ``path`` or of the held-out set."""
        return any(map(self._goes_into_cache, filter(None, (self.reader, self.heldout_reader))))

    def fill_cache(self) -> None:
        """Read what goes into the cache, and nothing else.

        Raises:
            ValueError: as :meth:`check`.
        """
        for reader in filter(None, (self.reader, self.heldout_reader)):
            if self._goes_into_cache(reader):
                self._stored(reader)

    def place_of(self, prompt_id: str) -> str | None:
        """Find where a prompt stands, for messages, by reading the data once more."""
        stored = self._split[0]
        if isinstance(stored, StoredPrompts) and (row := stored.row_of(prompt_id)) is not None:
            return place_in(self.reader.batches(self._columns_to_read()), row)
        for reader in filter(None, (self.reader, self.heldout_reader)):
            builder, rows = self._opened(reader)
            for where, columns in rows:
                prompt = self._prompt(builder, columns, where, ReadingReport(""))
                if prompt and prompt.prompt_id == prompt_id:
                    return where
        return None

    def check(self) -> None:
        """Read the data. No model is needed for it.

        Raises:
            ValueError: the data cannot be read, no column can be the prompt or the answer, no row is usable, or there
                are too few prompts for the split.
        """
        self.train_prompts()

    @cached_property
    def _split(self) -> tuple[Sequence[Prompt], Sequence[Prompt]]:
        self._reports = []
        prompts = self._read(self.reader)
        candidates = prompts if self.heldout_reader is None else self._read(self.heldout_reader)
        heldout = self._held_out(candidates)
        train = _without(prompts, heldout if self.heldout_reader is None else candidates)
        if self.heldout_reader is not None and (num_shared := len(prompts) - len(train)):
            self._reports[0].notes.append(f"{num_shared} prompts occur in the held-out set too")
            warnings.warn(
                f"{num_shared} training prompts of {self.reader.origin} occur in {self.heldout_reader.origin} too and "
                "are left out of training",
                stacklevel=5,
            )
        return train, heldout

    def _opened(self, reader: RowReader) -> tuple[PromptBuilder, Iterator[Row]]:
        """Look at the first rows for the layout, and return all of them."""
        rows = reader.rows(self._columns_to_read())
        head = list(islice(rows, NUM_ROWS))
        if not head:
            raise ValueError(f"{reader.origin} holds no prompts; it needs at least one row")
        return PromptBuilder(self._checked_layout(reader, head), **self._building), chain(head, rows)

    def _held_out(self, candidates: Sequence[Prompt]) -> list[Prompt]:
        number = len(candidates) if self.num_heldout is None else self.num_heldout
        if len(candidates) < number:
            enough = max(1, len(candidates) // 10) if self.heldout_reader is None else len(candidates)
            raise ValueError(
                f"data.source.num_heldout = {number}, but {(self.heldout_reader or self.reader).origin} has "
                f"{len(candidates)} distinct prompts; use data.source.num_heldout={enough}"
            )
        if isinstance(candidates, StoredPrompts):
            return list(candidates.only(np.argsort(candidates.column("order_key"), kind="stable")[:number]))
        return sorted(candidates, key=lambda prompt: stable_hash(self.seed, prompt.prompt_id))[:number]

    def _stored(self, reader: RowReader) -> StoredPrompts:
        builder, _ = self._opened(reader)
        report = self._new_report(reader, builder)
        prompts, num_conflicts = read_stored(
            reader,
            builder,
            report,
            columns=self._columns_to_read(),
            settings=(self._building, [(type(each).__name__, sorted(vars(each).items())) for each in self.filters]),
            seed=self.seed,
            accept=lambda columns, where: self._prompt(builder, columns, where, report),
            is_filtered=bool(self.filters),
        )
        self._finish(report, builder, num_conflicts)
        self._reports.append(report)
        return prompts

    def _goes_into_cache(self, reader: RowReader) -> bool:
        return reader.about_rows() > LARGE and all(type(each) in (ColumnRange, ColumnIn) for each in self.filters)

    def _read(self, reader: RowReader) -> Sequence[Prompt]:
        if self._goes_into_cache(reader):
            return self._stored(reader)
        by_text: dict[Any, Prompt] = {}  # what the template is given for one row alone makes it another prompt
        num_conflicts, (builder, rows) = 0, self._opened(reader)
        report = self._new_report(reader, builder)
        for where, columns in rows:
            report.num_read += 1
            if (prompt := self._prompt(builder, columns, where, report)) is None:
                continue
            text = same_text(prompt)
            key = (text, repr(prompt.template_arguments)) if prompt.template_arguments else text
            earlier = by_text.setdefault(key, prompt)
            if earlier is not prompt:
                report.drop("duplicates")
                num_conflicts += earlier.reference.get("answer") != prompt.reference.get("answer")
                continue
            for what in builder.changes:
                report.change(what, where)
        self._finish(report, builder, num_conflicts)
        self._reports.append(report)
        return list(by_text.values())

    def _new_report(self, reader: RowReader, builder: PromptBuilder) -> ReadingReport:
        return ReadingReport(reader.origin, _in_words(builder.layout, self.choices_column))

    def _prompt(
        self, builder: PromptBuilder, columns: Mapping[str, Any], where: str, report: ReadingReport
    ) -> Prompt | None:
        try:
            failed = next((row_filter for row_filter in self.filters if not _accepts(row_filter, columns)), None)
            if failed is None:
                return builder.build(columns)
            report.drop(f"not {_label(failed)}")
        except UnusableRowError as error:
            report.drop(error.reason, where, str(error))
        except KeyError as error:
            raise ValueError(f"{where}: data.source.filters: {error.args[0]}") from error
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        return None

    def _finish(self, report: ReadingReport, builder: PromptBuilder, num_conflicts: int) -> None:
        if not self.skip_invalid and (examples := [text for found in report.examples.values() for text in found]):
            number = sum(report.dropped[reason] for reason, found in report.examples.items() if found)
            what = f"of {report.num_read} rows of {report.origin} are unusable"
            raise ValueError(unusable_rows(examples, number, what))
        if report.num_kept == 0:
            raise ValueError(f"none of the {report.num_read} rows is usable:\n" + "\n".join(report.lines()))
        for name, kind in builder.left_out.items():
            report.notes.append(f"column {name!r} holds {kind} and is not given to the reward")
        if num_duplicates := report.dropped.get("duplicates", 0):
            if num_conflicts:
                report.notes.append(f"{num_conflicts} of the duplicates have another answer; the first is kept")
            warnings.warn(
                f"{num_duplicates} of {report.num_read} prompts in {report.origin} repeat an earlier one and are "
                "dropped",
                stacklevel=6,
            )

    def _columns_to_read(self) -> set[str] | None:
        names = [getattr(row_filter, "column", None) for row_filter in self.filters]
        if self.keep_columns is None or None in names:
            return None
        explicit = [self.prompt_column, self.answer_column, self.task_column, self.solution_column, self.choices_column]
        wanted = {name for name in (*names, *explicit, *self.keep_columns, *LAYOUT_COLUMNS) if name}
        return wanted | {name.partition(".")[0] for name in wanted}

    def _checked_layout(self, reader: RowReader, head: Sequence[Row]) -> Layout:
        (where, first), *others = head
        try:
            known = filled(first, [columns for _, columns in others])
            layout = self._layout(known, where)
            self._check_columns(known, layout, where)
            return layout
        except ValueError:
            if self._columns_to_read() is not None:  # say what there is, not what was read of it
                where, columns = next(reader.rows())
                self._check_columns(columns, self._layout(columns, where), where)
            raise

    def _layout(self, columns: Mapping[str, Any], where: str) -> Layout:
        found = detect_layout(columns)
        prompt = self.prompt_column or (found.prompt if found else None)
        if prompt is None:
            raise ValueError(
                f"{where}: no column looks like a prompt; {_listed(columns)}; set data.source.prompt_column and "
                "answer_column"
            )
        answer = self.answer_column or (found.answer if found else detect_answer(columns))
        answer = None if answer == prompt else answer
        is_pattern = self._building["answer_pattern"] is not None
        solution = self.solution_column or detect_solution(columns, answer, is_pattern=is_pattern)
        if found is None or (self.prompt_column is not None and self.answer_column is not None):
            return Layout("as configured", prompt, answer, self.task_column, solution)
        return Layout(found.name, prompt, answer, self.task_column or found.task, solution)

    def _check_columns(self, columns: Mapping[str, Any], layout: Layout, where: str) -> None:
        """Find on the first row what is wrong with the settings rather than with a row."""
        found = {
            "prompt": layout.prompt, "answer": layout.answer, "task": layout.task, "solution": layout.solution,
            "choices": self.choices_column,
        }  # fmt: skip
        for setting, name in found.items():
            if name is not None and not has_column(columns, name) and (setting != "answer" or self.needs_answer):
                raise ValueError(f"{where}: no column {name!r}; {_listed(columns)}; set data.source.{setting}_column")
        for name in self.keep_columns or ():
            if name not in columns:
                raise ValueError(f"{where}: no column {name!r} of data.source.keep_columns; {_listed(columns)}")
        if layout.answer is None and self.needs_answer and not may_hold_answer(lookup(columns, layout.prompt)):
            raise ValueError(
                f"{where}: no column looks like an answer; {_listed(columns)}; set data.source.answer_column, or "
                "needs_answer=false for a reward that needs none"
            )


def _without(prompts: Sequence[Prompt], others: Sequence[Prompt]) -> Sequence[Prompt]:
    """Leave out those of which the model is asked the same."""
    if isinstance(prompts, StoredPrompts):
        return prompts.only(~np.isin(prompts.column("text_key"), _text_keys(others)))
    if isinstance(others, StoredPrompts):
        is_there = np.isin(_text_keys(prompts), others.column("text_key"))
        return [prompt for prompt, found in zip(prompts, is_there, strict=True) if not found]
    excluded = {same_text(prompt) for prompt in others}
    return [prompt for prompt in prompts if same_text(prompt) not in excluded]


def _text_keys(prompts: Sequence[Prompt]) -> NDArray[np.uint64]:
    if isinstance(prompts, StoredPrompts):
        return prompts.column("text_key")
    return np.array([text_key(prompt.messages) for prompt in prompts], dtype=np.uint64)


def _check_heldout(num_heldout: int | None, **settings: object) -> None:
    if num_heldout is not None and num_heldout < 0:
        raise ValueError(f"data.source.num_heldout must be at least 0; got {num_heldout}")
    for setting, value in settings.items():
        if value is not None and num_heldout == 0:
            raise ValueError(
                f"data.source.{setting} = {str(value)!r} is given but num_heldout is 0; set num_heldout to "
                "the number of its prompts to evaluate on"
            )


def _compiled(setting: str, pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern, re.DOTALL)
    except re.error as error:
        raise ValueError(f"data.source.{setting} = {pattern!r} is no regular expression: {error}") from error
    if compiled.groups < 1:
        raise ValueError(f"data.source.{setting} = {pattern!r} needs a group (...) around what is to be taken")
    return compiled


def _listed(columns: Mapping[str, Any]) -> str:
    return f"columns found: {', '.join(sorted(columns)) or 'none'}"


def _in_words(layout: Layout, choices: str | None) -> str:
    last_turn = "answer from its last turn" if layout.prompt == "messages" else "no answer column"
    answer = f"answer from {layout.answer!r}" if layout.answer else last_turn
    task = f", task from {layout.task!r}" if layout.task else ""
    behind = f" and {choices!r}" if choices else ""
    return f"layout {layout.name}: prompt from {layout.prompt!r}{behind}, {answer}{task}"
