"""From one row of a data set to a prompt."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ada_lightning.core.records import Prompt
from ada_lightning.data.columns import as_json_like, has_column, lookup
from ada_lightning.data.layouts import Layout
from ada_lightning.data.messages import read_turns
from ada_lightning.data.prompts import SLOT, stable_hash

ID_TAG = "jsonl"
"""First part of every hash: histories of runs on JSON lines are keyed by it, whatever file the prompts move to."""


class UnusableRowError(ValueError):
    """A row that is no prompt. ``reason`` is what it is counted as."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(slots=True)
class PromptBuilder:
    """Puts the parts of a row where a :class:`~ada_lightning.core.records.Prompt` has them.

    ``reference`` is ``{"answer": ..., "columns": {...}}``: the answer, absent where there is none, and all columns but
    the prompt for rewards that want more. The id is a hash of the prompt's text and the answer, of neither template nor
    system prompt. Where the prompt is a list of messages, pattern and template are for its last user turn,
    ``system_prompt`` replaces its system turn, and an assistant's turn at its end is taken off: it is the answer, where
    no column is.

    """

    layout: Layout
    prompt_pattern: re.Pattern[str] | None
    """Its first group is what is taken of the prompt."""
    answer_pattern: re.Pattern[str] | None
    """The same for an answer that is text."""
    needs_answer: bool
    """False accepts rows without an answer, and answers that are lists, objects or booleans."""
    keep_columns: Collection[str] | None
    """Columns for the reward; None keeps all."""
    system_prompt: str | None
    """First turn; None leaves what the row has."""
    prompt_template: str
    """The user's turn, with ``{prompt}`` where the text goes."""
    task: str
    """Of every prompt whose layout names no column for it."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Type by column that cannot travel to reward workers."""

    def build(self, columns: Mapping[str, Any]) -> Prompt:
        """Return the prompt of one row.

        Raises:
            UnusableRowError: a column is missing, the prompt is empty or no text, the answer cannot be one, or one of
                them is not Unicode.
            ValueError: a column that was asked for cannot travel to reward workers.
        """
        turns, last_turn = self._turns(columns)
        own_system = turns.pop(0)["content"] if turns[0]["role"] == "system" else None
        position = max((index for index, turn in enumerate(turns) if turn["role"] == "user"), default=None)
        if position is None:
            raise UnusableRowError("empty", "the prompt has no turn of the user")
        text = _matched(self.prompt_pattern, turns[position]["content"], "prompt_pattern", "empty")
        if not text.strip():
            raise UnusableRowError("empty", "the prompt is empty")
        answer = self._answer(columns, last_turn)
        turns[position]["content"] = text
        is_text_alone = len(turns) == 1 and (own_system is None or self.system_prompt is not None)
        identity = text if is_text_alone else [own_system, *([turn["role"], turn["content"]] for turn in turns)]
        turns[position]["content"] = self.prompt_template.replace(SLOT, text)
        system = own_system if self.system_prompt is None else self.system_prompt
        first = [] if system is None else [{"role": "system", "content": system}]
        reference = {} if answer is None else {"answer": answer}
        try:
            prompt_id = stable_hash(ID_TAG, identity, answer)
        except UnicodeEncodeError as error:
            found = str(error.object)[error.start]
            raise UnusableRowError("not Unicode", f"its text holds {found!r}, half of a character") from error
        return Prompt(
            prompt_id=prompt_id,
            messages=(*first, *turns),
            reference={**reference, "columns": self._columns(columns)},
            task=self._task(columns),
        )

    def _turns(self, columns: Mapping[str, Any]) -> tuple[list[dict[str, str]], str | None]:
        value = _found(columns, self.layout.prompt, "prompt_column", "empty")
        try:
            turns = read_turns(value)
        except ValueError as error:
            raise UnusableRowError("empty", f"column {self.layout.prompt!r} {error}") from error
        last_turn = turns.pop()["content"] if turns[-1]["role"] == "assistant" else None
        if not turns:
            raise UnusableRowError("empty", "the prompt has no turn of the user")
        return turns, last_turn

    def _answer(self, columns: Mapping[str, Any], last_turn: str | None) -> Any:
        name, reason = self.layout.answer, "unusable answer"
        value = last_turn if name is None else self._answer_column(columns, name, reason)
        if isinstance(value, str):
            return _matched(self.answer_pattern, value, "answer_pattern", reason)
        is_number = (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, float) and math.isfinite(value)
        )
        if is_number or not self.needs_answer:
            return value
        if name is None:
            raise UnusableRowError(reason, "there is no answer: the last turn is not the assistant's")
        advice = ""
        if isinstance(value, (list, Mapping)):
            advice = (
                f"; name an element with data.source.answer_column={name}.<key or index>, or set needs_answer=false "
                "for a reward that reads all of it"
            )
        found = "NaN" if isinstance(value, float) else type(value).__name__
        raise UnusableRowError(reason, f"column {name!r} must be text or integer or number; found {found}{advice}")

    def _answer_column(self, columns: Mapping[str, Any], name: str, reason: str) -> Any:
        if not self.needs_answer and not has_column(columns, name):
            return None
        value = _found(columns, name, "answer_column", reason)
        try:
            if (
                isinstance(value, list)
                and value
                and all(isinstance(item, Mapping) and "role" in item for item in value)
            ):
                return read_turns(value)[-1]["content"]  # a completion in messages
            return as_json_like(value)
        except TypeError as error:
            message = f"column {name!r} holds {error}, which reward workers cannot be given"
            raise UnusableRowError(reason, message) from error
        except ValueError as error:
            raise UnusableRowError(reason, f"column {name!r} {error}") from error

    def _columns(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        kept = {}
        for name, value in columns.items():
            if name == self.layout.prompt or (self.keep_columns is not None and name not in self.keep_columns):
                continue
            try:
                kept[name] = as_json_like(value)
            except TypeError as error:
                if self.keep_columns is not None:
                    raise ValueError(
                        f"column {name!r} holds {error}, which reward workers cannot be given; leave it out of "
                        "data.source.keep_columns"
                    ) from error
                self.left_out.setdefault(name, str(error))
        return kept

    def _task(self, columns: Mapping[str, Any]) -> str:
        if self.layout.task is None:
            return self.task
        return str(_found(columns, self.layout.task, "task_column", "empty"))


def _found(columns: Mapping[str, Any], name: str, setting: str, reason: str) -> Any:
    try:
        return lookup(columns, name)
    except KeyError as error:
        raise UnusableRowError(reason, f"{error.args[0]}; set data.source.{setting}") from error


def _matched(pattern: re.Pattern[str] | None, text: str, setting: str, reason: str) -> str:
    if pattern is None:
        return text
    match = pattern.search(text)
    if match is None or match[1] is None:
        raise UnusableRowError(reason, f"data.source.{setting} = {pattern.pattern!r} finds nothing in {text[:80]!r}")
    return match[1]
